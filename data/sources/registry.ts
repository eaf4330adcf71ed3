/** The forms of published datasets, and the conversion of a file. */

import { ServiceError } from "../../core/errors.ts";
import { parseJson } from "../../core/json.ts";
import { readAllLines } from "../jsonl.ts";
import { GSM8K } from "./gsm8k.ts";
import type { DatasetSource, RowKind, SourceContent, SourceRow } from "./source.ts";
import { TAU2_BENCH } from "./tau2_bench.ts";
import { TAU_BENCH } from "./tau_bench.ts";

/** All forms; each is a file here and a line. */
export const DATASET_SOURCES = [GSM8K, TAU_BENCH, TAU2_BENCH] as unknown as readonly DatasetSource[];

/** The largest JSON file that is read: it is in memory as a whole. */
export const MAX_DOCUMENT_BYTES = 256 << 20;

/** What to take of a file. */
export interface ConvertOptions {
  /** Absent: the first kind that the source gives. */
  kind?: RowKind | undefined;
  /** Absent: the first part. */
  split?: string | undefined;
}

/** The rows of a file, and where they come from. */
export interface ConvertedRows {
  source: string;
  kind: RowKind;
  split: string | null;
  rows: SourceRow[];
}

/**
 * Reads a file of a published dataset as rows of this program's files. Messages, tools and other fields stay as they
 * are.
 *
 * @param path A `.jsonl` file is read by lines, any other as one JSON document.
 * @throws {ServiceError} `path_not_found`; `data_invalid` for a file of no known form; `config_invalid` for a kind or a
 * part that it does not have.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const path = await Deno.makeTempFile({ suffix: ".jsonl" });
 * await Deno.writeTextFile(path, '{"question": "What is 17 + 25?", "answer": "It is 42.\\n#### 42"}\n');
 * const { source, kind, rows } = await convertDataset(path);
 * assert.deepEqual([source, kind, rows[0]!.user], ["GSM8K", "scenarios", "What is 17 + 25?"]);
 * await Deno.remove(path);
 * ```
 */
export async function convertDataset(path: string, options: ConvertOptions = {}): Promise<ConvertedRows> {
  const content = path.endsWith(".jsonl") ? await readLines(path) : await readDocument(path);
  for (const source of DATASET_SOURCES) {
    const read = source.read(content, path);
    if (read !== null) return rowsOf(source, read, { path, ...options });
  }
  const forms = DATASET_SOURCES.map(({ name, form }) => `${name} (${form})`).join(", ");
  throw new ServiceError("data_invalid", `Cannot read ${path}: it has none of the known forms: ${forms}`, {
    path,
  });
}

function rowsOf(
  source: DatasetSource,
  read: unknown,
  { path, kind, split }: ConvertOptions & { path: string },
): ConvertedRows {
  const { name, rows } = source, kinds = Object.keys(rows) as RowKind[], splits = source.splits(read);
  const chosen = kind ?? kinds[0]!, part = split ?? splits[0] ?? null, make = rows[chosen];
  const refuse = (reason: string): never => {
    throw new ServiceError("config_invalid", `Cannot convert ${path}: ${reason}`, { path });
  };
  if (!make) return refuse(`${name} gives no ${chosen}; it gives ${kinds.join(", ")}`);
  if (part !== null && !splits.includes(part)) {
    const known = splits.length > 0 ? `it has ${splits.join(", ")}` : "it has no parts";
    return refuse(`there is no part ${JSON.stringify(part)}; ${known}`);
  }
  return { source: name, kind: chosen, split: part, rows: make(read, part) };
}

async function readLines(path: string): Promise<SourceContent> {
  const lines: unknown[] = [];
  for await (const found of readAllLines(path)) {
    if ("error" in found) throw found.error;
    lines.push(parsed(found.text, `${path}:${found.line}`));
  }
  return { lines };
}

async function readDocument(path: string): Promise<SourceContent> {
  const info = await Deno.stat(path).catch(() => null);
  if (!info?.isFile) throw new ServiceError("path_not_found", `Cannot read ${path}: no such file`, { path });
  if (info.size > MAX_DOCUMENT_BYTES) {
    const reason = `it has ${info.size} bytes, above the limit of ${MAX_DOCUMENT_BYTES} (MAX_DOCUMENT_BYTES)`;
    throw new ServiceError("data_invalid", `Cannot read ${path}: ${reason}`, { path });
  }
  return { document: parsed(await Deno.readTextFile(path), path) };
}

function parsed(text: string, place: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new ServiceError("data_invalid", `Cannot read ${place}: not JSON (${(error as Error).message})`);
  }
}
