/** The job that measures how long the rows of a dataset are in tokens. */

import type { DataKind } from "../../config/algorithms.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { type LineProblem, MAX_REPORTED_PROBLEMS } from "../../data/problems.ts";
import { datasetLines, problemOf } from "./dataset_lines.ts";
import { type ModelRequest, renderDatasetRow, rowRenderer } from "./rendered_dataset_row.ts";

/** After this time the job answers with the rows so far. */
export const TOKENIZE_SECONDS = 60;

/** The number of rows among the longest, and of lines among the truncated. */
const LISTED_ROWS = 20;

/** The largest length in the first bin of the histogram; every further bin ends at twice as much. */
const FIRST_BIN_TOKENS = 64;

export interface TokenizeRequest extends ModelRequest {
  path: string;
  kind: DataKind;
}

/** The lengths of rows in tokens. A row's length is that of its longest sequence, which `ctx` must hold. */
export interface TokenizeSummary {
  ctx: number;
  /** Rows that were tokenised. */
  rows: number;
  /** Whether all rows were read: false when the time was up. */
  complete: boolean;
  sequences: number;
  /** Of all sequences, also after `ctx`. */
  tokens: number;
  trained_tokens: number;
  /** Rows with `min_tokens` to `max_tokens` tokens, from the first bin to the last that has rows. */
  histogram: { min_tokens: number; max_tokens: number; rows: number }[];
  longest: { line: number; tokens: number }[];
  /** Rows with a sequence longer than `ctx`. */
  truncated: { rows: number; lines: number[] };
  /** The first lines that cannot be rendered; they are not among `rows`. */
  problems: LineProblem[];
}

/** @throws {ServiceError} The model's errors; `template_failed` when a row's render exceeds a limit. */
export async function tokenizeDataset(
  request: TokenizeRequest,
  clock: Clock = systemClock,
): Promise<TokenizeSummary> {
  const renderer = await rowRenderer(request, request.kind), { ctx } = renderer;
  const end_ms = clock.monotonic_ms() + TOKENIZE_SECONDS * 1000;
  const bins: number[] = [], truncated = { rows: 0, lines: [] as number[] }, problems: LineProblem[] = [];
  const total = { rows: 0, sequences: 0, tokens: 0, trained_tokens: 0 };
  let longest: { line: number; tokens: number }[] = [], complete = true;
  for await (const line of datasetLines(request.path)) {
    if (clock.monotonic_ms() >= end_ms) {
      complete = false;
      break;
    }
    try {
      if ("error" in line) throw line.error;
      const sequences = renderDatasetRow(line, renderer);
      const tokens = Math.max(0, ...sequences.map(({ ids }) => ids.length));
      total.rows++;
      total.sequences += sequences.length;
      for (const { ids, trained } of sequences) {
        total.tokens += ids.length;
        for (const mask of trained) total.trained_tokens += mask;
      }
      const bin = binOf(tokens);
      bins[bin] = (bins[bin] ?? 0) + 1;
      if (tokens > ctx && ++truncated.rows <= LISTED_ROWS) truncated.lines.push(line.line);
      longest = withRow(longest, { line: line.line, tokens });
    } catch (error) {
      const message = problemOf(error);
      if (problems.length < MAX_REPORTED_PROBLEMS) problems.push({ line: line.line, message });
    }
  }
  return { ctx, ...total, complete, histogram: histogramOf(bins), longest, truncated, problems };
}

function binOf(tokens: number): number {
  return Math.max(0, Math.ceil(Math.log2(tokens / FIRST_BIN_TOKENS)));
}

function histogramOf(bins: readonly number[]): TokenizeSummary["histogram"] {
  return Array.from(bins, (rows = 0, i) => ({
    min_tokens: i === 0 ? 0 : FIRST_BIN_TOKENS * 2 ** (i - 1) + 1,
    max_tokens: FIRST_BIN_TOKENS * 2 ** i,
    rows,
  }));
}

/** The list with a row, longest first, then by line. */
function withRow(
  longest: { line: number; tokens: number }[],
  row: { line: number; tokens: number },
): { line: number; tokens: number }[] {
  if (longest.length >= LISTED_ROWS && row.tokens <= longest.at(-1)!.tokens) return longest;
  return [...longest, row].sort((a, b) => b.tokens - a.tokens || a.line - b.line).slice(0, LISTED_ROWS);
}
