/** Warnings of a run or a plan. */

/** The warnings of a plan: the specification's closed list. */
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
 * Warnings that only a run has: `heldout_is_training` and `unprotected_verification` at its start (a plan's list is
 * closed), the others during the run. `no_valid_calls`: no attempt of the first update made a valid tool call.
 */
export const RUN_WARNING_CODES = [
  "heldout_is_training",
  "unprotected_verification",
  "device_lost",
  "checkpoint_damaged",
  "worse_than_best",
  "no_valid_calls",
] as const;

export type WarningCode = typeof WARNING_CODES[number];

/** Warnings that also apply to evaluating a model; its result says how many rows are cut. */
export const EVALUATION_WARNING_CODES: readonly RunWarning["code"][] = [
  "context_beyond_training",
  "template_not_prefix_stable",
  "no_end_signal",
  "heldout_is_training",
  "unprotected_verification",
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
  /** Dotted; absent when the warning concerns the entire configuration. */
  field?: string;
  message: string;
}
