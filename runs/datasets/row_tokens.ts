/** The job that shows a row's tokens as they would be trained. */

import type { DataKind } from "../../config/algorithms.ts";
import type { LineStart } from "../../data/jsonl.ts";
import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";
import type { RowSequence } from "../algorithms/row_kind.ts";
import { datasetLine } from "./dataset_lines.ts";
import { type ModelRequest, renderDatasetRow, rowRenderer } from "./rendered_dataset_row.ts";

export interface RowTokensRequest extends ModelRequest {
  path: string;
  kind: DataKind;
  line: number;
  from: LineStart;
  /** The first token to return. */
  start: number;
  limit: number;
}

export interface RowToken {
  id: number;
  text: string;
  origin: TokenOrigin;
  trained: boolean;
  /** The row's sequence that has it, from 0. */
  sequence: number;
  /** The completion of a pair, under the name of the API; else null. */
  side: RowSequence["completion"];
}

/** A part of a row's tokens; null when the dataset has no such row. */
export type RowTokens = { tokens: RowToken[]; has_more: boolean } | null;

/** @throws {ServiceError} `data_invalid` with `details.line` for a row that training refuses; the model's errors. */
export async function rowTokens(request: RowTokensRequest): Promise<RowTokens> {
  const line = await datasetLine(request.path, request);
  if (!line) return null;
  const renderer = await rowRenderer(request, request.kind);
  if ("error" in line) throw line.error;
  const { tokenizer } = renderer.parts.renderer, { start, limit } = request;
  const tokens: RowToken[] = [];
  let at = 0;
  for (
    const [sequence, { completion, ids, origins, trained }] of renderDatasetRow(line, renderer).entries()
  ) {
    for (const [i, id] of ids.entries()) {
      const is_wanted = at >= start && at < start + limit;
      at++;
      if (!is_wanted) continue;
      const text = tokenizer.textOf(id);
      tokens.push({ id, text, origin: origins[i]!, trained: trained[i] === 1, sequence, side: completion });
    }
  }
  return { tokens, has_more: at > start + limit };
}
