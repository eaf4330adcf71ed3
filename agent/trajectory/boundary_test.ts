import { equal, ok, rejects } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { boundary, type BoundaryBreak, BoundaryFailure, type BoundaryOptions } from "./boundary.ts";

function options(more: Partial<BoundaryOptions> = {}): BoundaryOptions & { clock: ManualClock } {
  const signal = new AbortController().signal;
  return { name: "tool", timeout_ms: 5000, signal, ...more, clock: new ManualClock() };
}

const is = (kind: BoundaryBreak, message: RegExp, name = "tool") => (error: unknown) => {
  ok(error instanceof BoundaryFailure && error.kind === kind && message.test(error.message), String(error));
  equal(error.failure.boundary, name);
  return true;
};

Deno.test("an answer passes, and leaves no timer", async () => {
  const o = options();
  equal(await boundary(o, () => Promise.resolve(7)), 7);
  equal(o.clock.sleeping, 0);
});

Deno.test("any thrown value becomes a boundary failure, once", async () => {
  await rejects(boundary(options(), () => Promise.reject(new Error("broke"))), is("failed", /^broke$/));
  await rejects(
    boundary(options(), () => {
      throw "text";
    }),
    is("failed", /^text$/),
  );
  const outer = options({ name: "environment" });
  await rejects(
    boundary(outer, () => boundary(options(), () => Promise.reject(new Error("deep")))),
    is("failed", /^deep$/),
  );
});

Deno.test("work that never answers is abandoned at its time limit", async () => {
  const o = options();
  let aborted = false;
  const hanging = boundary(o, (signal) => {
    signal.addEventListener("abort", () => aborted = true);
    return new Promise(() => {});
  });
  await o.clock.advance(4999);
  equal(aborted, false);
  await Promise.all([rejects(hanging, is("timeout", /no answer within 5 s/)), o.clock.advance(1)]);
  equal(aborted, true, "and told so");
});

Deno.test("work is abandoned when its caller aborts", async () => {
  const controller = new AbortController();
  const o = options({ signal: controller.signal, timeout_ms: null });
  const hanging = boundary(o, () => new Promise(() => {}));
  equal(o.clock.sleeping, 0);
  controller.abort();
  await rejects(hanging, is("cancelled", /cancelled/));
  let started = false;
  await rejects(
    boundary(o, () => {
      started = true;
      return Promise.resolve();
    }),
    is("cancelled", /cancelled/),
  );
  equal(started, false);
});
