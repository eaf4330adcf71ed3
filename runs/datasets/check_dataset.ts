/** The job that reads an uploaded file: its kind, its fields, its rows, and the lines that training would refuse. */

import type { DataKind } from "../../config/algorithms.ts";
import { ServiceError } from "../../core/errors.ts";
import { type LineStart, parseObject } from "../../data/jsonl.ts";
import { type LineProblem, MAX_REPORTED_PROBLEMS } from "../../data/problems.ts";
import { rowsOfKind } from "../algorithms/registry.ts";
import { kindOfRow, kindsText } from "./dataset_kind.ts";
import { DATASET_NAME, datasetLines, problemOf } from "./dataset_lines.ts";

/** Rows between two places in the index of lines. */
export const ROWS_BETWEEN_STARTS = 1024;

/** The most field names that are kept, and the most characters of one. */
const MAX_FIELDS = 100, MAX_FIELD_CHARS = 100;

export interface DatasetCheckRequest {
  path: string;
  kind: DataKind | "auto";
}

export interface DatasetCheck {
  /** Null when the fields of no row fit a kind. */
  kind: DataKind | null;
  /** Lines that are not blank. */
  rows: number;
  /** Lines that training would refuse, also blank ones before the last row. */
  invalid_rows: number;
  /** The names of all fields of rows, in the order of their first occurrence. */
  fields: string[];
  /** The first {@link MAX_REPORTED_PROBLEMS}. */
  problems: LineProblem[];
  /** The places of some lines: of the first row, and of every {@link ROWS_BETWEEN_STARTS}th after it. */
  starts: LineStart[];
  /** The number of the last line that is not blank. */
  last_line: number;
}

/** Reads all rows. The first row whose fields fit a kind decides the kind. @throws {ServiceError} `path_not_found`. */
export async function checkDataset({ path, kind: asked }: DatasetCheckRequest): Promise<DatasetCheck> {
  let kind = asked === "auto" ? null : asked, rows = 0, invalid_rows = 0, last_line = 0;
  let check = kind && rowsOfKind(kind).checker();
  const fields = new Set<string>(), problems: LineProblem[] = [], starts: LineStart[] = [];
  const onStart = (start: LineStart) => {
    if (rows++ % ROWS_BETWEEN_STARTS === 0) starts.push(start);
    last_line = start.line;
  };
  for await (const line of datasetLines(path, { onStart })) {
    try {
      if ("error" in line) throw line.error;
      const row = parseObject(DATASET_NAME, line);
      addFields(fields, row);
      if (!check) {
        kind = kindOfRow(row);
        check = kind && rowsOfKind(kind).checker();
      }
      if (!check) throw unknownKind(line.line);
      check(row, { path: DATASET_NAME, line: line.line });
    } catch (error) {
      const message = problemOf(error);
      invalid_rows++;
      if (problems.length < MAX_REPORTED_PROBLEMS) problems.push({ line: line.line, message });
    }
  }
  return { kind, rows, invalid_rows, fields: [...fields], problems, starts, last_line };
}

function unknownKind(line: number): ServiceError {
  const reason = `its fields are those of no kind: expected ${kindsText()}`;
  return new ServiceError("data_invalid", `Cannot read ${DATASET_NAME}:${line}: ${reason}`, { line });
}

function addFields(fields: Set<string>, row: Record<string, unknown>): void {
  for (const name of Object.keys(row)) {
    if (fields.size < MAX_FIELDS) fields.add(name.slice(0, MAX_FIELD_CHARS));
  }
}
