/** What a run, or the plan of one, should make its author think of. */

/** What a plan can warn of: the specification's closed list, which nothing is added to. */
export const WARNING_CODES = [
  "clip_range_for_level",
  "template_not_prefix_stable",
  "budget_changed_on_fork",
  "group_too_small",
  "judge_only_reward",
  "mutable_image_tag",
  "kl_reference_is_base",
  "no_heldout",
  "no_checkpoint",
  "software_device",
  "vram_unknown",
  "lever_applied",
  "context_beyond_training",
  "context_truncated",
  "rows_truncated",
  "no_end_signal",
] as const;

/**
 * What only a run warns of: at its start `heldout_is_training`, which no plan says because its list is closed, the others
 * while it is live.
 */
export const RUN_WARNING_CODES = [
  "heldout_is_training",
  "device_lost",
  "checkpoint_damaged",
  "worse_than_best",
] as const;

export type WarningCode = typeof WARNING_CODES[number];

/** What also holds where a model is only tried; how many rows are cut stands in the result. */
export const EVALUATION_WARNING_CODES: readonly RunWarning["code"][] = [
  "context_beyond_training",
  "template_not_prefix_stable",
  "no_end_signal",
  "heldout_is_training",
];

/** A warning of a run. */
export interface RunWarning {
  code: WarningCode | typeof RUN_WARNING_CODES[number];
  /** Dotted; absent when the warning concerns no key. */
  field?: string;
  message: string;
}

/** `plan.warnings[]` of the specification. */
export interface PlanWarning {
  code: WarningCode;
  /** Dotted; absent when the warning concerns the whole configuration. */
  field?: string;
  message: string;
}
