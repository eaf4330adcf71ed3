/** Traces to learn from, one JSON object a line, as token sequences. */

import type { ChatMessage } from "../../../core/chat.ts";
import { ServiceError } from "../../../core/errors.ts";
import { type JsonLine, readLines } from "../../../data/jsonl.ts";
import { parseTrace, type Trace } from "../../../data/trace.ts";
import {
  renderCompletion,
  renderConversation,
  renderPlainText,
} from "../../../trainer/tokenizer/conversation.ts";
import type { RenderedSequence, TrainOn } from "../../../trainer/tokenizer/conversation.ts";
import type { Renderer } from "../../../trainer/tokenizer/renderer.ts";

/** Problems that one error lists. */
export const MAX_REPORTED_PROBLEMS = 20;

/** After so many rows other work on the thread gets its turn. */
const ROWS_BETWEEN_BREATHS = 64;

/** A sequence of at most `ctx` tokens, some of them trained. */
export interface SftSequence {
  tokens: Uint32Array;
  loss_mask: Uint8Array;
  trained_tokens: number;
  /** Its row's line in the file. */
  line: number;
}

export interface SftData {
  sequences: SftSequence[];
  rows: number;
  /** Lines whose sequence was longer than `ctx` and was cut at its end. */
  truncated: number[];
}

export interface SftRowsOptions {
  renderer: Renderer;
  train_on: TrainOn;
  variables: Readonly<Record<string, unknown>>;
  ctx: number;
  /** Rows that are read; the rest of the file is not looked at. */
  max_rows?: number;
}

/**
 * Reads and renders the rows of a JSONL file.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the first {@link MAX_REPORTED_PROBLEMS} problems, each
 * with file and line, or when no token is left to train; `template_failed` at the first row whose render goes beyond a
 * limit.
 */
export async function readSftRows(path: string, options: SftRowsOptions): Promise<SftData> {
  const data: SftData = { sequences: [], rows: 0, truncated: [] };
  const problems: { line: number; message: string }[] = [];
  for await (const line of readLines(path)) {
    if (data.rows === options.max_rows || problems.length >= MAX_REPORTED_PROBLEMS) break;
    if (++data.rows % ROWS_BETWEEN_BREATHS === 0) await new Promise((resolve) => setTimeout(resolve));
    try {
      addRow(data, renderLine(path, line, options), { line: line.line, ctx: options.ctx });
    } catch (error) {
      if (!(error instanceof ServiceError) || error.code === "template_failed") throw error;
      problems.push({ line: line.line, message: error.message });
    }
  }
  if (problems.length === 0 && data.sequences.length === 0) {
    problems.push({ line: 1, message: `Cannot read ${path}: no row in it has a token to train` });
  }
  if (problems.length === 0) return data;
  throw new ServiceError("data_invalid", problems.map(({ message }) => message).join("\n"), {
    path,
    problems,
  });
}

function addRow(
  data: SftData,
  rendered: RenderedSequence[],
  { line, ctx }: { line: number; ctx: number },
): void {
  if (rendered.some(({ ids }) => ids.length > ctx)) data.truncated.push(line);
  for (const { ids, loss_mask } of rendered) {
    const mask = loss_mask.slice(0, ctx);
    const trained_tokens = mask.reduce((sum, m) => sum + m, 0);
    if (trained_tokens === 0) continue;
    data.sequences.push({
      tokens: Uint32Array.from(ids.slice(0, ctx)),
      loss_mask: mask,
      trained_tokens,
      line,
    });
  }
}

function renderLine(path: string, line: JsonLine, options: SftRowsOptions): RenderedSequence[] {
  const trace = parseTrace(path, line);
  try {
    return renderTrace(trace, options);
  } catch (error) {
    const message = `Cannot read ${path}:${line.line}: ${(error as Error).message}`;
    if (error instanceof ServiceError && error.details.limit !== undefined) {
      // The next row would take as long to fail.
      throw new ServiceError("template_failed", message, error.details, { cause: error });
    }
    throw new ServiceError("data_invalid", message, { path, line: line.line }, { cause: error });
  }
}

function renderTrace(
  { content, tools }: Trace,
  { renderer, train_on, variables }: SftRowsOptions,
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
