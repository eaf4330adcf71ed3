/** Compares the tokens that a trace trains with those that the policy sampled. */

import type { TraceRow } from "../../agent/results/collect.ts";
import type { Trajectory } from "../../agent/trajectory/trajectory.ts";
import { renderConversation } from "../../trainer/tokenizer/conversation.ts";
import type { ModelParts } from "../session/model_parts.ts";

/**
 * Whether `sft` on the row, with the template variables of the rollouts, trains exactly the tokens that were sampled.
 * It does not where the model wrote a call otherwise than its template does, such as with other spaces: it then learns
 * the template's form.
 */
export function trainsSampledTokens(
  { fragments }: Pick<Trajectory, "fragments">,
  { messages, tools }: TraceRow,
  { renderer, variables }: Pick<ModelParts, "renderer" | "variables">,
): boolean {
  const request = { messages, train_on: "assistant" as const };
  const trained = renderConversation(renderer, request, { tools, variables })
    .flatMap(({ ids, loss_mask }) => ids.filter((_, i) => loss_mask[i] === 1));
  const sampled = fragments.flatMap(({ tokens, spans }) =>
    spans.filter(({ origin }) => origin === "model").flatMap(({ start, end }) => tokens.slice(start, end))
  );
  return trained.length === sampled.length && trained.every((token, i) => token === sampled[i]);
}
