/** Checks samples before a pass. */

import { ServiceError } from "../../core/errors.ts";
import type { TrainingSample } from "../protocol/protocol.ts";

/** The use of the samples, and the limits of the model. */
export interface SampleLimits {
  use: "score" | "train on" | "compare policies on";
  vocabulary: number;
  /** The most tokens of a sample. */
  max_context: number;
}

const ARRAYS = ["loss_mask", "advantages", "old_logprobs", "reference_logprobs", "weights"] as const;

/**
 * Refuses samples that no pass can use.
 *
 * @throws {ServiceError} `config_invalid` for an array of another length than the tokens, an unknown token, a loss mask
 * that starts with 1, and a number of tokens below 2 or above the context.
 */
export function checkSamples(samples: readonly TrainingSample[], limits: SampleLimits): void {
  const { use, vocabulary, max_context } = limits;
  for (const sample of samples) {
    const reason = problemOf(sample, { vocabulary, max_context });
    if (reason === null) continue;
    throw new ServiceError("config_invalid", `Cannot ${use} trajectory ${sample.trajectory}: ${reason}`);
  }
}

function problemOf(
  sample: TrainingSample,
  { vocabulary, max_context }: Omit<SampleLimits, "use">,
): string | null {
  const { tokens, loss_mask } = sample;
  const wrong = ARRAYS.find((name) => (sample[name]?.length ?? tokens.length) !== tokens.length);
  if (wrong) return `${wrong} has ${sample[wrong]!.length} entries for ${tokens.length} tokens`;
  const unknown = tokens.find((token) => token >= vocabulary);
  if (unknown !== undefined) return `token ${unknown} is not in the vocabulary of ${vocabulary}`;
  if (tokens.length < 2) return "it has fewer than 2 tokens";
  if (tokens.length > max_context) {
    return `${tokens.length} tokens are more than the context of ${max_context}`;
  }
  return loss_mask[0] === 0 ? null : "its loss mask has the first token, which nothing predicts";
}
