import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { PaceWatch } from "./body_pace.ts";

const PACE = { idle_ms: 30_000, bytes_per_second: 1000 };

/** A body whose chunks arrive after times of waiting; null where the client sends nothing more. */
async function send(chunks: readonly [waited_ms: number, bytes: number | null][]) {
  const clock = new ManualClock(), cuts: number[] = [], started_ms = clock.monotonic_ms();
  const watch = new PaceWatch({ pace: PACE, clock, cut: () => cuts.push(clock.monotonic_ms() - started_ms) });
  for (const [waited_ms, bytes] of chunks) {
    const arrived = Promise.withResolvers<IteratorResult<Uint8Array>>();
    const chunk = watch.next(arrived.promise);
    await clock.advance(waited_ms);
    if (bytes === null) break;
    arrived.resolve({ done: false, value: new Uint8Array(bytes) });
    await chunk;
    assert.equal(clock.sleeping, 0, "nothing waits between chunks");
  }
  return cuts;
}

Deno.test("a client that sends nothing is cut at the idle limit, and not before", async () => {
  assert.deepEqual(await send([[29_999, null]]), []);
  assert.deepEqual(await send([[30_000, null]]), [30_000]);
});

Deno.test("a client that keeps the pace is never cut, however long it sends", async () => {
  // 20 s for 20,000 bytes, ten times.
  assert.deepEqual(await send(Array(10).fill([20_000, 20_000])), []);
  // A pause after it is as long as the idle limit, and not as all that was sent before.
  const fast: [number, number][] = Array(10).fill([1, 1_000_000]);
  assert.deepEqual(await send([...fast, [29_999, 1]]), []);
  assert.deepEqual(await send([...fast, [30_000, null]]), [30_010]);
});

Deno.test("a client that trickles is cut when its time is used up", async () => {
  // Every 10 s one byte, which earns 1 ms: 30 s and 3 ms are used up at the fourth wait.
  assert.deepEqual(await send(Array(4).fill([10_000, 1])), [30_003]);
});

Deno.test("the time between two waits does not count: the reader is busy", async () => {
  const clock = new ManualClock();
  const watch = new PaceWatch({ pace: PACE, clock, cut: () => assert.fail("the client is not slow") });
  for (let i = 0; i < 3; i++) {
    await watch.next(Promise.resolve({ done: false, value: new Uint8Array(1) }));
    await clock.advance(60_000);
  }
  assert.equal((await watch.next(Promise.resolve({ done: true, value: undefined }))).done, true);
});
