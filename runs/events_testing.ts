/** Events for tests of several rooms. */

import type { EventData } from "./record/event.ts";

/** An update of agentic GRPO without lost attempts. */
export const TEST_UPDATE = {
  kind: "update",
  update: 3,
  updates: 8,
  step: 3,
  reward_mean: 0.53125,
  loss: 0.1,
  tokens_per_second: 311.6,
  eta_seconds: 80,
  attempts: 32,
  lost: {},
  failure: null,
  degenerate_groups: 0,
  optimizer_steps: 1,
  groups: [],
} as const satisfies EventData;
