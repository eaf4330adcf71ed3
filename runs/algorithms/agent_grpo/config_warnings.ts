/** Warnings about keys of `[agent]` that are valid. */

import type { ResolvedConfig } from "../../../config/check/derive.ts";
import type { TemplateProbe } from "../../../trainer/tokenizer/template_probe.ts";
import type { PlanWarning, WarningCode } from "../../record/warning.ts";
import { templateKey } from "../../session/model_parts.ts";

/** Sequence ratios need clip ranges about a thousand times smaller than token ratios. */
const LARGE_SEQUENCE_CLIP = 0.01;

/** Below this size a member's baseline is the reward of very few others. */
const SMALL_GROUP = 4;

/** Warnings that follow from the configuration and the model's chat template. */
export function agentWarnings(
  { agent, lora, model }: Pick<ResolvedConfig, "agent" | "lora" | "model">,
  probe: Pick<TemplateProbe, "tool_loop_stable" | "problems">,
): PlanWarning[] {
  const warnings: PlanWarning[] = [];
  const warn = (code: WarningCode, field: string, message: string) => warnings.push({ code, field, message });
  if (!probe.tool_loop_stable && probe.problems.length === 0) {
    warn(
      "template_not_prefix_stable",
      templateKey(model),
      "the template changes earlier turns: a trajectory becomes fragments that share one ratio",
    );
  }
  const { importance_sampling_level, clip_low, clip_high, group_size, kl_coefficient, kl_reference } = agent!;
  if (importance_sampling_level === "sequence" && Math.max(clip_low, clip_high) > LARGE_SEQUENCE_CLIP) {
    warn(
      "clip_range_for_level",
      "agent.clip_high",
      "a ratio of entire sequences is hardly ever this far from 1",
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
  if (agent!.judge && !agent!.environment && !agent!.reward) {
    warn(
      "judge_only_reward",
      "agent.judge",
      "the judge's opinion is the only reward: a reward that an environment or a program can verify is more reliable; " +
        "measure the judge with `svc judge eval`",
    );
  }
  if (kl_coefficient > 0 && kl_reference === "base" && lora.init_adapter !== undefined) {
    warn("kl_reference_is_base", "agent.kl_reference", "the KL term pulls away from lora.init_adapter");
  }
  const image = agent!.environment?.image;
  if (image !== undefined && !image.includes("@sha256:")) {
    const fix = "name it by its digest, as name@sha256:…";
    warn("mutable_image_tag", "agent.environment.image", `${image} may become another image: ${fix}`);
  }
  return warnings;
}
