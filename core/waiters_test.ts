import assert from "node:assert/strict";
import { Waiters } from "./waiters.ts";

/** A signal that counts its listeners. */
function countedSignal() {
  const controller = new AbortController(), { signal } = controller, listeners = new Set<unknown>();
  const add = signal.addEventListener.bind(signal), remove = signal.removeEventListener.bind(signal);
  signal.addEventListener = (...given: [string, EventListener]) => {
    listeners.add(given[1]);
    add(...given);
  };
  signal.removeEventListener = (...given: [string, EventListener]) => {
    listeners.delete(given[1]);
    remove(...given);
  };
  return { controller, signal, listeners };
}

Deno.test("all waits end when they are woken, and one whose signal aborts ends alone", async () => {
  const waiters = new Waiters(), left = new AbortController(), stays = new AbortController();
  const ended: string[] = [];
  const note = (name: string, wait: Promise<void>) => wait.then(() => void ended.push(name));
  const leaving = note("left", waiters.wait(left.signal));
  const staying = ["a", "b"].map((name) => note(name, waiters.wait(stays.signal)));
  left.abort();
  await leaving;
  assert.deepEqual(ended, ["left"]);
  waiters.wake();
  await Promise.all(staying);
  assert.deepEqual(ended, ["left", "a", "b"]);
  await waiters.wait(left.signal);
});

Deno.test("a thousand waits leave no listener at their signal", async () => {
  const waiters = new Waiters(), { controller, signal, listeners } = countedSignal();
  for (let i = 0; i < 1000; i++) {
    const wait = waiters.wait(signal);
    assert.equal(listeners.size, 1);
    waiters.wake();
    await wait;
  }
  const wait = waiters.wait(signal);
  controller.abort();
  await wait;
  assert.equal(listeners.size, 0);
});
