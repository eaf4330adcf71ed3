/** Warnings about a valid configuration. Those about an algorithm's own keys come with its data. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { type SectionedConfig, updatesLimit } from "../../config/check/own_section.ts";
import { DEFAULT_CHECKPOINT_EVERY } from "../../config/sections/defaults.ts";
import type { PlanWarning, WarningCode } from "../record/warning.ts";
import type { TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";
import { templateKey } from "../session/model_parts.ts";

/** The header of the checkpoint section. */
export const CHECKPOINT_SECTION = "[checkpoint]";

/** The share of a run that an interruption loses at most with the suggested checkpoints. */
const LOST_SHARE = 0.1;

/** Suggested lines for the configuration: ten checkpoints in a run, at most ten updates apart. */
export function suggestedCheckpoint(config: SectionedConfig): string {
  const updates = updatesLimit(config) ?? Infinity;
  const every = Math.min(DEFAULT_CHECKPOINT_EVERY, Math.ceil(updates * LOST_SHARE));
  return `${CHECKPOINT_SECTION}\nevery_updates = ${every}`;
}

/** Warnings that follow from the keys of all algorithms and the model's header. */
export function configWarnings(
  config: ResolvedConfig,
  model: { context_length: number; probe: TemplateProbe },
): PlanWarning[] {
  const { training, evaluation, checkpoint } = config;
  const { probe, context_length } = model;
  const warnings: PlanWarning[] = [];
  const warn = (code: WarningCode, field: string, message: string) => warnings.push({ code, field, message });
  if (training.ctx > context_length) {
    warn("context_beyond_training", "training.ctx", `the model was trained for ${context_length} tokens`);
  }
  if (!evaluation) {
    warn("no_heldout", "evaluation", "without [evaluation] nothing is measured on held-out data");
  }
  if (!checkpoint) {
    warn(
      "no_checkpoint",
      "checkpoint",
      `without ${CHECKPOINT_SECTION} an interruption loses everything that was learned: the run starts again at its ` +
        `first update. These lines of the configuration prevent it:\n${suggestedCheckpoint(config)}`,
    );
  }
  const template = templateKey(config.model);
  for (const problem of probe.problems) {
    warn("template_not_prefix_stable", template, `the template refuses a probe conversation: ${problem}`);
  }
  const was_probed = probe.problems.length === 0;
  if (probe.turn_end === null && was_probed) {
    warn("no_end_signal", template, "the template ends a turn with no token that ends a generation");
  }
  return warnings;
}
