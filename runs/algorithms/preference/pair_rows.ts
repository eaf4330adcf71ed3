/** Preference pairs as token sequences. */

import type { ChatMessage } from "../../../core/chat.ts";
import { COMPLETIONS, type Pair, pairOf, parsePair } from "../../../data/pair.ts";
import { linesInvalid, MAX_REPORTED_PROBLEMS, readRows } from "../../../data/problems.ts";
import { trajectoryTokens } from "../../../trainer/learning/packing.ts";
import type { TrainingSample } from "../../../trainer/protocol/protocol.ts";
import {
  renderCompletion,
  renderConversation,
  type RenderedSequence,
} from "../../../trainer/tokenizer/conversation.ts";
import type { Renderer } from "../../../trainer/tokenizer/renderer.ts";
import { cutSequence, renderRow, type TokenSequence, trainingSample } from "../rendered_rows.ts";
import { type RowKind, rowSequence } from "../row_kind.ts";

/** The sequences of a completion: several when the template changes earlier turns. */
type Completion = TokenSequence[];

/** A pair in which both completions have tokens to train. */
export interface TokenPair {
  chosen: Completion;
  rejected: Completion;
  /** Leading tokens that the first sequences of both share; none of them is trained. */
  prefix_length: number;
  /** The row's line in the file. */
  line: number;
}

/** The pairs of a file. */
export interface PairData {
  pairs: TokenPair[];
  rows: number;
  /** Lines with a sequence that exceeded `ctx` and was cut at its end. */
  truncated: number[];
  /** Lines of pairs in which the cut left nothing of a completion. */
  left_out: number[];
}

/** How to read and render rows. */
export interface PairRowsOptions {
  renderer: Renderer;
  variables: Readonly<Record<string, unknown>>;
  ctx: number;
  /** Tokens of the micro-batch that must hold each pair; absent for pairs that are only scored. */
  micro_batch_tokens?: number;
  /** The number of rows to read; later rows are ignored. */
  max_rows?: number | undefined;
}

/**
 * Reads and renders the pairs of a JSONL file. For messages, every assistant turn after the prompt is trained; for
 * texts, the completion with its end token.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first problems, each with file and line, for pairs
 * above the micro-batch too, or when no pair is left; `template_failed` at the first row whose render exceeds a limit.
 */
export async function readPairRows(path: string, options: PairRowsOptions): Promise<PairData> {
  const { ctx } = options;
  const rows = await readRows(path, options, (line) => {
    const { content, tools } = parsePair(path, line);
    const completions = renderRow(path, line, () => renderPair({ content, tools }, options));
    const [chosen, rejected] = completions.map((sequences) =>
      sequences.map((sequence) => cutSequence(sequence, ctx)).filter((cut) => cut !== null)
    ) as [Completion, Completion];
    const is_truncated = completions.flat().some(({ ids }) => ids.length > ctx);
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
  if (options.micro_batch_tokens !== undefined) checkFits(path, pairs, options.micro_batch_tokens);
  const linesOf = (found: typeof rows) => found.map(({ line }) => line);
  return {
    pairs,
    rows: rows.length,
    truncated: linesOf(rows.filter(({ is_truncated }) => is_truncated)),
    left_out: linesOf(rows.filter((row) => !isUsable(row))),
  };
}

/** Refuses pairs above a micro-batch, which holds both completions of a pair. */
function checkFits(path: string, pairs: readonly TokenPair[], micro_batch_tokens: number): void {
  const needs = pairs.map((pair) => {
    const { samples } = pairSamples([pair]), needed = trajectoryTokens(samples).get(0)!;
    return { line: pair.line, sequences: samples.length, needed };
  }).filter(({ needed }) => needed > micro_batch_tokens);
  const most = needs.reduce((top, { needed }) => Math.max(top, needed), 0);
  const problems = needs.slice(0, MAX_REPORTED_PROBLEMS).map(({ line, sequences, needed }) => ({
    line,
    message:
      `Cannot train on ${path}:${line}: the ${sequences} sequences of its completions need ${needed} tokens in one ` +
      `micro-batch, which has ${micro_batch_tokens}. Raise training.micro_batch_tokens to ${most}, or leave the row out`,
  }));
  if (problems.length > 0) throw linesInvalid(path, problems);
}

/** The sequences of both completions, before they are cut to `ctx`. @throws {ServiceError} As the renderer does. */
function renderPair(
  { content, tools }: Pair,
  { renderer, variables }: Omit<PairRowsOptions, "ctx">,
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

/** Samples of pairs, chosen completions first, with the samples of each pair's rejected completion. */
export function pairSamples(
  pairs: readonly TokenPair[],
): { samples: TrainingSample[]; rejected: boolean[]; pair_of: number[] } {
  const samples: TrainingSample[] = [], rejected: boolean[] = [], pair_of: number[] = [];
  let group = pairs.length;
  for (const [pair, { prefix_length, ...completions }] of pairs.entries()) {
    for (const completion of COMPLETIONS) {
      for (const [i, sequence] of completions[completion].entries()) {
        const shared = i === 0 ? { prefix_group: pair, prefix_length } : { prefix_group: group++ };
        samples.push({ ...trainingSample(sequence, pair), ...shared });
        rejected.push(completion === "rejected");
        pair_of.push(pair);
      }
    }
  }
  return { samples, rejected, pair_of };
}

/** Tokens that the model processes for a pair; shared ones count once. */
export function pairTokens({ chosen, rejected, prefix_length }: TokenPair): number {
  return [...chosen, ...rejected].reduce((total, { tokens }) => total + tokens.length, -prefix_length);
}

/** Rows of pairs. Nothing of a pair is trained when a completion has no token left. */
export const pairRows: RowKind = {
  checker: () => pairOf,
  render(line, { path, parts: { renderer, variables }, ctx }) {
    const pair = parsePair(path, line);
    const rendered = renderRow(path, line, () => renderPair(pair, { renderer, variables }));
    const is_usable = rendered.every((sequences) =>
      sequences.some((sequence) => cutSequence(sequence, ctx) !== null)
    );
    return rendered.flatMap((sequences, i) =>
      sequences.map((sequence) =>
        rowSequence(sequence, { ctx: is_usable ? ctx : 0, completion: COMPLETIONS[i]! })
      )
    );
  },
};
