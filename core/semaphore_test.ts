import assert from "node:assert/strict";
import { Semaphore } from "./semaphore.ts";

const never = new AbortController().signal;

Deno.test("permits are granted in order, never more than the total, and an aborted wait makes room", async () => {
  const permits = new Semaphore(4), entered: string[] = [];
  const ends = new Map<string, () => void>();
  const use = (name: string, n: number, signal = never) =>
    permits.use(n, signal, () => {
      entered.push(name);
      return new Promise<string>((resolve) => ends.set(name, () => resolve(name)));
    });
  const settle = () => new Promise((resolve) => setTimeout(resolve));
  const late = new AbortController();
  const a = use("a", 3), b = use("b", 4, late.signal), c = use("c", 1), d = use("d", 1);
  await settle();
  assert.deepEqual(entered, ["a"]);
  assert.equal(permits.waiting, 3);
  late.abort(new Error("too late"));
  await assert.rejects(b, /too late/);
  await settle();
  assert.deepEqual(entered, ["a", "c"]);
  assert.equal(permits.waiting, 1);
  ends.get("a")!();
  assert.equal(await a, "a");
  await settle();
  assert.deepEqual(entered, ["a", "c", "d"]);
  ends.get("c")!();
  ends.get("d")!();
  await Promise.all([c, d]);
  await assert.rejects(permits.use(4, never, () => Promise.reject(new Error("broken"))), /broken/);
  assert.equal(await permits.use(4, never, () => Promise.resolve("free again")), "free again");
});
