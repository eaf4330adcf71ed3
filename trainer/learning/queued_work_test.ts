import { deepEqual } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { MAX_QUEUED_MS, QueuedWork } from "./queued_work.ts";

Deno.test("a call waits for the device after micro-batches of at most MAX_QUEUED_MS, or after each longer one", async () => {
  const clock = new ManualClock(), queued = new QueuedWork(clock);
  /** The micro-batches of 512 rows between waits, when each takes `ms`. */
  const between = async (ms: number, micro_batches: number) => {
    const counts: number[] = [];
    queued.begin();
    for (let i = 0, count = 0; i < micro_batches; i++) {
      count++;
      await clock.advance(ms);
      if (!queued.add(512)) continue;
      queued.done();
      counts.push(count);
      count = 0;
    }
    return counts;
  };
  deepEqual(await between(MAX_QUEUED_MS / 4, 9), [1, 4, 4], "the time of the first is unknown");
  deepEqual(await between(3 * MAX_QUEUED_MS, 6), [4, 1, 1], "the device became slower");
  deepEqual(await between(1, 1 + MAX_QUEUED_MS), [1, MAX_QUEUED_MS], "and faster");
  queued.begin();
  deepEqual(
    [queued.add(512 * (MAX_QUEUED_MS - 1)), queued.add(512)],
    [false, true],
    "rows count, not micro-batches",
  );
});
