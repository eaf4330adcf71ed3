/** Pairs to learn from as token sequences. */

import type { ChatMessage } from "../../../core/chat.ts";
import { type Pair, parsePair } from "../../../data/pair.ts";
import { linesInvalid, readRows } from "../../../data/problems.ts";
import type { TrainingSample } from "../../../trainer/engine/protocol.ts";
import {
  renderCompletion,
  renderConversation,
  type RenderedSequence,
} from "../../../trainer/tokenizer/conversation.ts";
import type { Renderer } from "../../../trainer/tokenizer/renderer.ts";
import { cutSequence, renderRow, type TokenSequence, trainingSample } from "../rendered_rows.ts";

/** A completion's sequences: more than one where the template changes earlier turns. */
type Completion = TokenSequence[];

/** A pair whose completions both have a token to train. */
export interface TokenPair {
  chosen: Completion;
  rejected: Completion;
  /** Leading tokens that the first sequences of both have in common, none of them trained. */
  prefix_length: number;
  /** Its row's line in the file. */
  line: number;
}

/** The rows of a file. */
export interface PairData {
  pairs: TokenPair[];
  rows: number;
  /** Lines with a sequence that was longer than `ctx` and was cut at its end. */
  truncated: number[];
  /** Lines of pairs with a completion of which the cut left nothing. */
  left_out: number[];
}

/** How rows are read and rendered. */
export interface PairRowsOptions {
  renderer: Renderer;
  variables: Readonly<Record<string, unknown>>;
  ctx: number;
  /** Rows that are read; the rest of the file is not looked at. */
  max_rows?: number | undefined;
}

/**
 * Reads and renders the pairs of a JSONL file. Of messages every turn of the assistant after the prompt is trained, of
 * texts the completion with its end token.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first problems, each with file and line, or when no
 * pair is left; `template_failed` at the first row whose render goes beyond a limit.
 */
export async function readPairRows(path: string, options: PairRowsOptions): Promise<PairData> {
  const { ctx } = options;
  const rows = await readRows(path, options, (line) => {
    const { content, tools } = parsePair(path, line);
    const sides = renderRow(path, line, () => renderPair({ content, tools }, options));
    const [chosen, rejected] = sides.map((side) =>
      side.map((sequence) => cutSequence(sequence, ctx)).filter((cut) => cut !== null)
    ) as [Completion, Completion];
    const is_truncated = sides.flat().some(({ ids }) => ids.length > ctx);
    return { line: line.line, chosen, rejected, is_truncated };
  });
  const isUsable = ({ chosen, rejected }: typeof rows[number]) => chosen.length > 0 && rejected.length > 0;
  const pairs = rows.filter(isUsable).map(({ chosen, rejected, line }): TokenPair => {
    return { chosen, rejected, line, prefix_length: commonPrefix(chosen[0]!, rejected[0]!) };
  });
  if (pairs.length === 0) {
    const message = `Cannot read ${path}: no pair in it has a token to train in both completions`;
    throw linesInvalid(path, [{ line: 1, message }]);
  }
  const linesOf = (found: typeof rows) => found.map(({ line }) => line);
  return {
    pairs,
    rows: rows.length,
    truncated: linesOf(rows.filter(({ is_truncated }) => is_truncated)),
    left_out: linesOf(rows.filter((row) => !isUsable(row))),
  };
}

function renderPair(
  { content, tools }: Pair,
  { renderer, variables }: PairRowsOptions,
): [chosen: RenderedSequence[], rejected: RenderedSequence[]] {
  const { prompt } = content;
  const render = (completion: string | readonly ChatMessage[]) => {
    if (typeof prompt === "string") {
      return [renderCompletion(renderer.tokenizer, prompt, completion as string)];
    }
    const messages = [...prompt, ...completion as ChatMessage[]];
    const request = { messages, train_on: "assistant" as const, first_trained_message: prompt.length };
    return renderConversation(renderer, request, { tools, variables });
  };
  return [render(content.chosen), render(content.rejected)];
}

function commonPrefix(a: TokenSequence, b: TokenSequence): number {
  const most = Math.min(a.loss_mask.indexOf(1), b.loss_mask.indexOf(1));
  const differs = a.tokens.findIndex((token, i) => i >= most || token !== b.tokens[i]);
  return Math.max(0, differs);
}

/** Samples of pairs, those of a chosen completion first, and which of them belong to the rejected one. */
export function pairSamples(
  pairs: readonly TokenPair[],
): { samples: TrainingSample[]; rejected: boolean[]; pair_of: number[] } {
  const samples: TrainingSample[] = [], rejected: boolean[] = [], pair_of: number[] = [];
  let group = pairs.length;
  for (const [pair, { prefix_length, ...sides }] of pairs.entries()) {
    for (const side of ["chosen", "rejected"] as const) {
      for (const [i, sequence] of sides[side].entries()) {
        const shared = i === 0 ? { prefix_group: pair, prefix_length } : { prefix_group: group++ };
        samples.push({ ...trainingSample(sequence, pair), ...shared });
        rejected.push(side === "rejected");
        pair_of.push(pair);
      }
    }
  }
  return { samples, rejected, pair_of };
}

/** Tokens that go through the model for a pair, the shared ones once. */
export function pairTokens({ chosen, rejected, prefix_length }: TokenPair): number {
  return [...chosen, ...rejected].reduce((total, { tokens }) => total + tokens.length, -prefix_length);
}
