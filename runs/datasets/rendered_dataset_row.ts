/** Rows of a dataset as training would see them: the same renderers, cut and masks. */

import type { DataKind } from "../../config/algorithms.ts";
import { defaultCtx } from "../../config/check/derive.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { JsonLine } from "../../data/jsonl.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { rowsOfKind } from "../algorithms/registry.ts";
import type { RowSequence } from "../algorithms/row_kind.ts";
import { loadModelParts, type ModelParts } from "../session/model_parts.ts";
import { DATASET_NAME } from "./dataset_lines.ts";

/** A model whose tokenizer and template are used. */
export interface ModelRequest {
  model: CheckedFile;
  /** Absent or null: the default of training for this model. */
  ctx: number | null;
  template_variables: Record<string, unknown>;
}

/** The arguments of {@link renderDatasetRow} besides the row. */
export interface RowRenderer {
  kind: DataKind;
  parts: ModelParts;
  ctx: number;
}

/** The parts of the last model: a process usually gets several jobs on one. */
let last: { key: string; parts: Promise<ModelParts> } | null = null;

/** @throws {ServiceError} `path_not_found`, `format_invalid`, `not_built`, `template_failed`. */
export async function rowRenderer(
  { model, ctx, template_variables }: ModelRequest,
  kind: DataKind,
): Promise<RowRenderer> {
  const { mtime, size } = await Deno.stat(model.path);
  const key = JSON.stringify([model, mtime, size, template_variables]);
  if (last?.key !== key) {
    last = { key, parts: loadModelParts({ path: model.path }, template_variables, () => openGguf(model)) };
  }
  const parts = await last.parts;
  return { kind, parts, ctx: ctx ?? defaultCtx(parts.context_length) };
}

/**
 * The sequences of a row, not cut; see `RowKind.render`.
 *
 * @throws {ServiceError} `data_invalid` with the line, `template_failed` when a render exceeds a limit.
 */
export function renderDatasetRow(line: JsonLine, { kind, parts, ctx }: RowRenderer): RowSequence[] {
  return rowsOfKind(kind).render(line, { path: DATASET_NAME, parts, ctx });
}
