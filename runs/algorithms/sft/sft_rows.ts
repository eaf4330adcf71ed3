/** SFT examples as token sequences, one JSON object a line. */

import type { ChatMessage } from "../../../core/chat.ts";
import { linesInvalid, readRows } from "../../../data/problems.ts";
import { parseTrace, type Trace, traceOf } from "../../../data/trace.ts";
import {
  renderCompletion,
  renderConversation,
  renderPlainText,
} from "../../../trainer/tokenizer/conversation.ts";
import type { RenderedSequence, TrainOn } from "../../../trainer/tokenizer/conversation.ts";
import type { Renderer } from "../../../trainer/tokenizer/renderer.ts";
import { cutSequence, renderRow, type TokenSequence } from "../rendered_rows.ts";
import { type RowKind, rowSequence } from "../row_kind.ts";

/** An example, or a part of it that the template renders separately. */
export interface SftSequence extends TokenSequence {
  /** The row's line in the file. */
  line: number;
}

/** The examples of a file. */
export interface SftData {
  sequences: SftSequence[];
  rows: number;
  /** Lines with a sequence that exceeded `ctx` and was cut at its end. */
  truncated: number[];
}

/** How to read and render rows. */
export interface SftRowsOptions {
  renderer: Renderer;
  train_on: TrainOn;
  variables: Readonly<Record<string, unknown>>;
  ctx: number;
  /** The number of rows to read; later rows are ignored. */
  max_rows?: number | undefined;
}

/**
 * Reads and renders the rows of a JSONL file.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first problems, each with file and line, or when no
 * token is left to train; `template_failed` at the first row whose render exceeds a limit.
 */
export async function readSftRows(path: string, options: SftRowsOptions): Promise<SftData> {
  const { ctx } = options;
  const rows = await readRows(path, options, (line) => {
    const trace = parseTrace(path, line);
    const rendered = renderRow(path, line, () => renderTrace(trace, options));
    return {
      line: line.line,
      cuts: rendered.map((sequence) => cutSequence(sequence, ctx)).filter((cut) => cut !== null),
      is_truncated: rendered.some(({ ids }) => ids.length > ctx),
    };
  });
  const sequences = rows.flatMap(({ line, cuts }) => cuts.map((cut): SftSequence => ({ ...cut, line })));
  if (sequences.length === 0) {
    throw linesInvalid(path, [{
      line: 1,
      message: `Cannot read ${path}: no row in it has a token to train`,
    }]);
  }
  const truncated = rows.filter(({ is_truncated }) => is_truncated).map(({ line }) => line);
  return { sequences, rows: rows.length, truncated };
}

/** The sequences of an example, before they are cut to `ctx`. @throws {ServiceError} As the renderer does. */
function renderTrace(
  { content, tools }: Trace,
  { renderer, train_on, variables }: Omit<SftRowsOptions, "ctx">,
): RenderedSequence[] {
  const render = { tools, variables };
  if ("text" in content) return [renderPlainText(renderer.tokenizer, content.text)];
  if ("messages" in content) {
    return renderConversation(renderer, { messages: content.messages, train_on }, render);
  }
  const { prompt, completion } = content;
  if (typeof prompt === "string") return [renderCompletion(renderer.tokenizer, prompt, completion as string)];
  const messages = [...prompt, ...completion as ChatMessage[]];
  return renderConversation(
    renderer,
    { messages, train_on, first_trained_message: prompt.length },
    render,
  );
}

/** Rows of traces. */
export const traceRows: RowKind = {
  checker: () => traceOf,
  render(line, { path, parts: { renderer, variables }, ctx }) {
    const trace = parseTrace(path, line);
    const render = () => renderTrace(trace, { renderer, variables, train_on: "assistant" });
    return renderRow(path, line, render).map((sequence) => rowSequence(sequence, { ctx }));
  },
};
