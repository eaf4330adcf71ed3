/** The job that shows rows of a dataset as training reads them. */

import type { DataKind } from "../../config/algorithms.ts";
import type { LineStart } from "../../data/jsonl.ts";
import { parseObject } from "../../data/jsonl.ts";
import { rowsOfKind } from "../algorithms/registry.ts";
import { DATASET_NAME, datasetLines, problemOf } from "./dataset_lines.ts";

/** Of a longer row only the beginning of its text is shown. */
const MAX_SHOWN_ROW_CHARS = 64 << 10;

/** How many characters of the text are then shown. */
const SHOWN_TEXT_CHARS = 2000;

/** A page ends early after this many characters of rows. */
const MAX_PAGE_CHARS = 4 << 20;

export interface PreviewRequest {
  path: string;
  kind: DataKind | null;
  /** The first line to show. */
  line: number;
  from: LineStart;
  limit: number;
}

export interface PreviewRow {
  line: number;
  /** Null when the line is no object, or too long to show. */
  row: Record<string, unknown> | null;
  /** The beginning of the line where there is no `row`; null when it is not UTF-8 or too long to read. */
  text: string | null;
  /** Why training would refuse the line; null when it would not. Ids are not compared with other lines. */
  problem: string | null;
}

export interface PreviewPage {
  rows: PreviewRow[];
  /** The line of the next row; null at the end. */
  next: number | null;
}

export async function previewRows(
  { path, kind, line: first, from, limit }: PreviewRequest,
): Promise<PreviewPage> {
  const rows: PreviewRow[] = [];
  let chars = 0;
  for await (const found of datasetLines(path, { from })) {
    const { line } = found;
    if (line < first) continue;
    if (rows.length >= limit || chars >= MAX_PAGE_CHARS) return { rows, next: line };
    if ("error" in found) {
      rows.push({ line, row: null, text: null, problem: problemOf(found.error) });
      continue;
    }
    const { text } = found;
    let row: Record<string, unknown> | null = null, problem: string | null = null;
    try {
      row = parseObject(DATASET_NAME, found);
      if (kind) rowsOfKind(kind).checker()(row, { path: DATASET_NAME, line });
    } catch (error) {
      problem = problemOf(error);
    }
    const is_shown = row !== null && text.length <= MAX_SHOWN_ROW_CHARS;
    rows.push({
      line,
      row: is_shown ? row : null,
      text: is_shown ? null : text.slice(0, SHOWN_TEXT_CHARS),
      problem,
    });
    chars += Math.min(text.length, MAX_SHOWN_ROW_CHARS);
  }
  return { rows, next: null };
}
