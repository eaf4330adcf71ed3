/** Kinds of rows of data files, for code that checks or shows data without a run of their algorithm. */

import { type JsonLine, parseObject } from "../../data/jsonl.ts";
import type { CompletionName } from "../../data/pair.ts";
import { readRows } from "../../data/problems.ts";
import type { RenderedSequence } from "../../trainer/tokenizer/conversation.ts";
import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";
import type { ModelParts } from "../session/model_parts.ts";

/** The place of a row in messages. */
export interface RowPlace {
  path: string;
  line: number;
}

/** A sequence of a row: `trained[i]` is 1 for the tokens that training trains. */
export interface RowSequence {
  /** The completion of a pair that it belongs to; null for rows of other kinds. */
  completion: CompletionName | null;
  ids: readonly number[];
  origins: readonly TokenOrigin[];
  trained: Uint8Array;
}

/** The arguments of {@link RowKind.render} besides the row. */
export interface RowRendering {
  /** The file's name in messages. */
  path: string;
  parts: ModelParts;
  ctx: number;
}

/** How the rows of an algorithm's data are checked and rendered. Two algorithms with rows of one kind share it. */
export interface RowKind {
  /** Makes the check of a file's rows, which it gets in order. The check throws `data_invalid` with file and line. */
  checker(): (row: Record<string, unknown>, place: RowPlace) => void;
  /**
   * The sequences of a row as training with the default keys sees them, not cut: no token after `ctx` is trained.
   *
   * @throws {ServiceError} `data_invalid` with file and line, `template_failed` when a render exceeds a limit.
   */
  render(line: JsonLine, rendering: RowRendering): RowSequence[];
}

/** Checks the rows of a file, without a model or an environment. @throws {ServiceError} `path_not_found`, `data_invalid`. */
export async function checkFile(path: string, { checker }: RowKind): Promise<void> {
  const check = checker();
  await readRows(path, {}, (line) => check(parseObject(path, line), { path, line: line.line }));
}

/** A rendered sequence of which the first `ctx` tokens are trained where its mask says so. */
export function rowSequence(
  { ids, origins, loss_mask }: RenderedSequence,
  { ctx, completion = null }: { ctx: number; completion?: RowSequence["completion"] },
): RowSequence {
  return { completion, ids, origins, trained: loss_mask.map((mask, i) => i < ctx ? mask : 0) };
}
