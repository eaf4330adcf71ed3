/** Rows of a dataset as training would see them: the same renderers, cut and masks. */

import { promptMessages } from "../../agent/rollout/scheduler.ts";
import { defaultCtx } from "../../config/check/derive.ts";
import type { CheckedFile } from "../../core/files.ts";
import type { JsonLine } from "../../data/jsonl.ts";
import { parsePair } from "../../data/pair.ts";
import { parseObject } from "../../data/jsonl.ts";
import { parseScenario } from "../../data/scenario.ts";
import { parseTrace } from "../../data/trace.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import type { RenderedSequence } from "../../trainer/tokenizer/conversation.ts";
import type { TokenOrigin } from "../../trainer/tokenizer/renderer.ts";
import { renderPair } from "../algorithms/preference/pair_rows.ts";
import { cutSequence, renderRow } from "../algorithms/rendered_rows.ts";
import { renderTrace } from "../algorithms/sft/sft_rows.ts";
import { chatOf, loadModelParts, type ModelParts } from "../session/model_parts.ts";
import type { DatasetKind } from "./dataset_kind.ts";
import { DATASET_NAME } from "./dataset_lines.ts";

/** A model whose tokenizer and template are used. */
export interface ModelRequest {
  model: CheckedFile;
  /** Absent or null: what training takes for this model. */
  ctx: number | null;
  template_variables: Record<string, unknown>;
}

/** What {@link renderDatasetRow} needs besides the row. */
export interface RowRenderer {
  kind: DatasetKind;
  parts: ModelParts;
  ctx: number;
}

/** A sequence of a row: `length` tokens, of which `trained[i]` is 1 for those that training trains. */
export interface DatasetSequence {
  /** Of a pair; else null. */
  side: "chosen" | "rejected" | null;
  ids: readonly number[];
  origins: readonly TokenOrigin[];
  trained: Uint8Array;
}

/** The parts of the last model: a process usually gets several jobs on one. */
let last: { key: string; parts: Promise<ModelParts> } | null = null;

/** @throws {ServiceError} `path_not_found`, `format_invalid`, `not_built`, `template_failed`. */
export async function rowRenderer(
  { model, ctx, template_variables }: ModelRequest,
  kind: DatasetKind,
): Promise<RowRenderer> {
  const { mtime, size } = await Deno.stat(model.path);
  const key = JSON.stringify([model, mtime, size, template_variables]);
  if (last?.key !== key) {
    const config = {
      run: { algorithm: "sft" as const },
      model: { path: model.path },
      sft: { template_variables },
    };
    const parts = loadModelParts(config as Parameters<typeof loadModelParts>[0], () => openGguf(model));
    last = { key, parts };
  }
  const parts = await last.parts;
  return { kind, parts, ctx: ctx ?? defaultCtx(parts.context_length) };
}

/**
 * The sequences of a row, not cut. A token is trained as in a run with `train_on = "assistant"`: not after `ctx`, and
 * not in a pair of which a side has no token left. A scenario has its prompt, without the tools of an environment.
 *
 * @throws {ServiceError} `data_invalid` with the line, `template_failed` when a render exceeds a limit.
 */
export function renderDatasetRow(line: JsonLine, renderer: RowRenderer): DatasetSequence[] {
  return ROW_RENDERERS[renderer.kind](line, renderer);
}

const ROW_RENDERERS: Record<DatasetKind, (line: JsonLine, renderer: RowRenderer) => DatasetSequence[]> = {
  scenarios: renderScenario,
  sft: renderExample,
  preference: renderPreference,
};

function renderScenario(line: JsonLine, { parts }: RowRenderer): DatasetSequence[] {
  const scenario = parseScenario(parseObject(DATASET_NAME, line), { path: DATASET_NAME, line: line.line });
  const render = () => chatOf(parts).promptTokens(promptMessages(scenario, ""), []);
  const ids = renderRow(DATASET_NAME, line, render);
  const origins = ids.map((): TokenOrigin => "prompt");
  return [{ side: null, ids, origins, trained: new Uint8Array(ids.length) }];
}

function renderExample(
  line: JsonLine,
  { parts: { renderer, variables }, ctx }: RowRenderer,
): DatasetSequence[] {
  const trace = parseTrace(DATASET_NAME, line);
  const render = () => renderTrace(trace, { renderer, variables, train_on: "assistant" });
  return renderRow(DATASET_NAME, line, render).map((sequence) => ({
    side: null,
    ...trainedPart(sequence, ctx),
  }));
}

function renderPreference(
  line: JsonLine,
  { parts: { renderer, variables }, ctx }: RowRenderer,
): DatasetSequence[] {
  const pair = parsePair(DATASET_NAME, line);
  const sides = renderRow(DATASET_NAME, line, () => renderPair(pair, { renderer, variables }));
  const is_usable = sides.every((side) => side.some((sequence) => cutSequence(sequence, ctx) !== null));
  return sides.flatMap((side, i) =>
    side.map((sequence) => ({
      side: i === 0 ? "chosen" as const : "rejected" as const,
      ...trainedPart(sequence, is_usable ? ctx : 0),
    }))
  );
}

function trainedPart({ ids, origins, loss_mask }: RenderedSequence, ctx: number) {
  return { ids, origins, trained: loss_mask.map((mask, i) => i < ctx ? mask : 0) };
}
