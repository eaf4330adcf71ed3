/** Warnings about a valid configuration. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { type SectionedConfig, updatesLimit } from "../../config/check/own_section.ts";
import { DEFAULT_CHECKPOINT_EVERY } from "../../config/sections/defaults.ts";
import type { PlanWarning, WarningCode } from "../record/warning.ts";
import type { TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";

/** Sequence ratios need clip ranges about a thousand times smaller than token ratios. */
const LARGE_SEQUENCE_CLIP = 0.01;

/** Below this size a member's baseline is the reward of very few others. */
const SMALL_GROUP = 4;

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

/** Warnings that follow from the configuration and the model's header. */
export function configWarnings(
  config: ResolvedConfig,
  model: { context_length: number; probe: TemplateProbe },
): PlanWarning[] {
  const { agent, training, evaluation, checkpoint, lora } = config;
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
  const { chat_template } = config.model;
  const template = chat_template === undefined ? "model.path" : "model.chat_template";
  for (const problem of probe.problems) {
    warn("template_not_prefix_stable", template, `the template refuses a probe conversation: ${problem}`);
  }
  const was_probed = probe.problems.length === 0;
  if (probe.turn_end === null && was_probed) {
    warn("no_end_signal", template, "the template ends a turn with no token that ends a generation");
  }
  if (!agent) return warnings;
  if (!probe.tool_loop_stable && was_probed) {
    warn(
      "template_not_prefix_stable",
      template,
      "the template changes earlier turns: a trajectory becomes fragments that share one ratio",
    );
  }
  const { importance_sampling_level, clip_low, clip_high, group_size, kl_coefficient, kl_reference } = agent;
  if (importance_sampling_level === "sequence" && Math.max(clip_low, clip_high) > LARGE_SEQUENCE_CLIP) {
    warn(
      "clip_range_for_level",
      "agent.clip_high",
      "a ratio of whole sequences is hardly ever this far from 1",
    );
  }
  if (group_size < SMALL_GROUP) {
    warn(
      "group_too_small",
      "agent.group_size",
      `each attempt is compared with only ${group_size - 1} other${
        group_size === 2 ? "" : "s"
      }, so advantages are ` +
        `noisy: set agent.group_size to ${SMALL_GROUP} or more`,
    );
  }
  if (kl_coefficient > 0 && kl_reference === "base" && lora.init_adapter !== undefined) {
    warn("kl_reference_is_base", "agent.kl_reference", "the KL term pulls away from lora.init_adapter");
  }
  return warnings;
}
