/** Checks what is asked of sequences. */

import { ServiceError } from "../../core/errors.ts";
import { MAX_STOP_TOKENS } from "../../kernels/sample_token/advance.ts";
import type { EngineMethods } from "../protocol/protocol.ts";
import type { Grammars } from "../grammar/grammars.ts";
import type { Generation, Sequence } from "./sequence.ts";
import { createTokenMask } from "./token_mask.ts";

/**
 * A generation that has not begun.
 *
 * @param limits vocabulary: its size. grammars: for masks of schemas.
 * @throws {ServiceError} `config_invalid`.
 */
export function newGeneration(
  { id, tokens }: Pick<Sequence, "id" | "tokens">,
  request: EngineMethods["sequence_generate"]["request"],
  limits: { max_context: number; block_steps: number; vocabulary: number; grammars?: Grammars },
): Generation {
  const { max_context, block_steps, vocabulary, grammars = null } = limits;
  const { stop_tokens, sampling, block_tokens = block_steps } = request;
  const room = max_context - tokens.length;
  const refuse = (reason: string) => {
    throw new ServiceError("config_invalid", `Cannot generate from sequence ${id}: ${reason}`);
  };
  if (!(request.max_tokens >= 1)) refuse(`max_tokens is ${request.max_tokens}, below 1`);
  if (!(block_tokens >= 1)) refuse(`block_tokens is ${block_tokens}, below 1`);
  if (room < 1) refuse(`it has ${tokens.length} tokens, and the context holds no more`);
  if (stop_tokens.length > MAX_STOP_TOKENS) {
    refuse(`${stop_tokens.length} stop tokens are above ${MAX_STOP_TOKENS}`);
  }
  if (!(sampling.temperature >= 0)) refuse(`the temperature ${sampling.temperature} is below 0`);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) refuse(`top_p ${sampling.top_p} is not in (0, 1]`);
  const mask = sampling.mask && createTokenMask(sampling.mask, { vocabulary, stop_tokens, grammars });
  const remaining = Math.min(request.max_tokens, room);
  return { remaining, block_tokens, stop_tokens, sampling, mask, is_cancelled: false };
}

/**
 * Checks tokens that are given to a sequence after `before` others.
 *
 * @throws {ServiceError} `config_invalid`.
 */
export function checkTokens(
  { id, tokens, before }: { id: number; tokens: readonly number[]; before: number },
  { vocabulary, max_context }: { vocabulary: number; max_context: number },
): void {
  const bad = tokens.findIndex((token) => !Number.isInteger(token) || token < 0 || token >= vocabulary);
  if (bad >= 0) {
    throw new ServiceError(
      "config_invalid",
      `Cannot give token ${tokens[bad]} to sequence ${id}: the vocabulary has ${vocabulary}`,
    );
  }
  if (before + tokens.length > max_context) {
    throw new ServiceError(
      "config_invalid",
      `Cannot give ${tokens.length} tokens to sequence ${id} of ${before}: the context holds ${max_context}`,
    );
  }
}
