/** The metric that shows at a glance whether a run learns. */

import type { Run } from "../../api/types.ts";

export const MAIN_METRIC: Readonly<Record<Run["algorithm"], string>> = {
  agent_grpo: "reward/mean",
  sft: "loss/sft",
  preference: "loss/preference",
};
