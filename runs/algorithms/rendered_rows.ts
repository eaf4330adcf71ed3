/** Rows of a data file as token sequences. */

import { ServiceError } from "../../core/errors.ts";
import type { JsonLine } from "../../data/jsonl.ts";
import type { TrainingSample } from "../../trainer/protocol/protocol.ts";
import type { RenderedSequence } from "../../trainer/tokenizer/conversation.ts";
import type { RowCounts } from "../record/event.ts";
import type { PlanWarning } from "../record/warning.ts";

/** At most `ctx` tokens, some of which are trained. */
export interface TokenSequence {
  tokens: Uint32Array;
  loss_mask: Uint8Array;
  trained_tokens: number;
}

/** The most tokens that an evaluation scores in one request, so that other requests can run in between. */
export const SCORED_TOKENS = 1 << 14;

/** The first `ctx` tokens; null when none of them is trained. */
export function cutSequence({ ids, loss_mask }: RenderedSequence, ctx: number): TokenSequence | null {
  const mask = loss_mask.slice(0, ctx), trained_tokens = mask.reduce((sum, m) => sum + m, 0);
  return trained_tokens === 0
    ? null
    : { tokens: Uint32Array.from(ids.slice(0, ctx)), loss_mask: mask, trained_tokens };
}

/**
 * Renders a line's data.
 *
 * @throws {ServiceError} `data_invalid` with file and line; `template_failed` when a render exceeds a limit, because
 * the next row would take as long to fail.
 */
export function renderRow<T>(path: string, { line }: JsonLine, render: () => T): T {
  try {
    return render();
  } catch (error) {
    const message = `Cannot read ${path}:${line}: ${(error as Error).message}`;
    if (error instanceof ServiceError && error.details.limit !== undefined) {
      throw new ServiceError("template_failed", message, error.details, { cause: error });
    }
    throw new ServiceError("data_invalid", message, { path, line }, { cause: error });
  }
}

/** A single sequence as a sample without a shared prefix. */
export function trainingSample({ tokens, loss_mask }: TokenSequence, i: number): TrainingSample {
  return {
    tokens,
    prefix_group: i,
    prefix_length: 0,
    loss_mask,
    trajectory: i,
    advantages: null,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
  };
}

/** The number of rows in an evaluation, and how many of them were cut. */
export function rowCounts(rows: readonly { line: number }[], truncated: readonly number[]): RowCounts {
  const lines = new Set(rows.map(({ line }) => line));
  return { n: lines.size, truncated: truncated.filter((line) => lines.has(line)).length };
}

/** The warnings when rows were cut. */
export function truncationWarnings(
  data: { rows: number; truncated: readonly number[] } | null,
  section: `[${string}]`,
): PlanWarning[] {
  if (!data || data.truncated.length === 0) return [];
  const { rows, truncated } = data;
  const message =
    `${truncated.length} of ${rows} rows of ${section} are longer than training.ctx and were cut, the first in ` +
    `line ${truncated[0]}`;
  return [{ code: "rows_truncated", field: "training.ctx", message }];
}
