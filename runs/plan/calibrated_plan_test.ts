import assert from "node:assert/strict";
import { calibratedPlan, overflow } from "./calibrated_plan.ts";
import type { Plan } from "./plan.ts";

const MEASURED = { seconds: 3, tokens: 100, bytes: { weights: 1000, adapters: 30, kv: 500 } };

function plan(
  { updates, max_minutes }: { updates: number | null; max_minutes?: number },
  budget: number | null = 2000,
  is_software = false,
) {
  return {
    config: { training: { ...(max_minutes !== undefined && { max_minutes }) } },
    memory: {
      posts: [{ post: "host_checkpoint", bytes: 700 }, { post: "weights", bytes: 1 }],
      peak_bytes: 1,
      host_peak_bytes: is_software ? 701 : 700,
      vram_budget_bytes: budget,
      ram_budget_bytes: 9,
    },
    levers_applied: ["micro_batch"],
    schedule: {
      updates,
      tokens_per_update: 50,
      seconds_per_update: null,
      eta_seconds: null,
      calibrated: false,
    },
  } as unknown as Plan;
}

Deno.test("measurements replace the posts, the largest first, and give the time of an update's tokens", () => {
  const { memory, schedule } = calibratedPlan(plan({ updates: 4 }), MEASURED);
  assert.deepEqual(memory, {
    posts: [
      { post: "weights", bytes: 1000 },
      // A copy in the machine's memory, which the device does not measure.
      { post: "host_checkpoint", bytes: 700 },
      { post: "kv", bytes: 500 },
      { post: "adapters", bytes: 30 },
    ],
    ...{ peak_bytes: 1530, host_peak_bytes: 700, vram_budget_bytes: 2000, ram_budget_bytes: 9 },
  });
  assert.deepEqual(schedule, {
    ...{ updates: 4, tokens_per_update: 50, seconds_per_update: 1.5, eta_seconds: 6, calibrated: true },
  });
});

Deno.test("what a software adapter takes is the machine's memory, measured too", () => {
  const { memory } = calibratedPlan(plan({ updates: 4 }, null, true), MEASURED);
  assert.deepEqual([memory.peak_bytes, memory.host_peak_bytes], [1530, 2230]);
});

Deno.test("a run ends with its updates or its minutes", () => {
  const eta = (given: Parameters<typeof plan>[0]) =>
    calibratedPlan(plan(given), MEASURED).schedule.eta_seconds;
  assert.equal(eta({ updates: null, max_minutes: 2 }), 120);
  assert.equal(eta({ updates: 1000, max_minutes: 2 }), 120);
  assert.equal(eta({ updates: 10, max_minutes: 2 }), 15);
  assert.equal(eta({ updates: null }), null);
});

Deno.test("what was measured is compared with the budget, to the byte", () => {
  const of = (budget: number | null) =>
    overflow(calibratedPlan(plan({ updates: 1 }, budget), MEASURED), false);
  assert.equal(of(1530), null);
  assert.equal(of(null), null);
  const { message, meta } = of(1529)!;
  assert.match(message, /as measured/);
  assert.deepEqual(meta, {
    ...{ overflow_bytes: 1, vram_budget_bytes: 1529, ram_budget_bytes: 9, unlocks: [] },
    dominant_posts: [
      { post: "weights", bytes: 1000 },
      { post: "kv", bytes: 500 },
      { post: "adapters", bytes: 30 },
    ],
    levers_applied: ["micro_batch"],
  });
  assert.equal(overflow(plan({ updates: 1 }), true)!.meta.overflow_bytes, 0);
  assert.equal(overflow(plan({ updates: 1 }, null), true)!.meta.vram_budget_bytes, 0);
});
