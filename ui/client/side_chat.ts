/** One conversation with several models beside each other. */

import { signal } from "@preact/signals";
import { EventSourceParserStream } from "eventsource-parser/stream";
import type { ChatCompletionChunk, ChatMessage, ChatStreamFailure, Generation } from "../../api/types.ts";
import { type Api, Unreachable } from "./api.ts";
import type { RequestTool } from "./run_tools.ts";

/** A model that answers. */
export interface ChatModel {
  /** The run that it belongs to. */
  run: string;
  /** False: the run's base model without its adapter. */
  has_adapter: boolean;
  /** Models with the same one are served by one process, and answer at the same time. */
  base: string;
}

/** How a model answers. */
export interface ChatOptions {
  /** Empty for none. */
  system: string;
  max_tokens: number;
  temperature: number;
  seed: number;
  /** The tools that each run's model may call, by the run; none is executed. */
  tools?: ReadonlyMap<string, RequestTool[]>;
}

/** A message as it is shown. */
export interface ChatTurn {
  role: "user" | "assistant";
  text: string;
  /** The thinking before the text. */
  thinking: string;
  calls: { name: string; arguments: string }[];
  /** Whether its end was cut off at the most tokens. */
  is_cut: boolean;
}

/** The course of the conversation with one model. */
export class ChatColumn {
  readonly turns = signal<readonly ChatTurn[]>([]);
  readonly state = signal<"idle" | "waiting" | "answering">("idle");
  /** Why there is no answer to the last message. */
  readonly error = signal<unknown>(null);

  constructor(readonly model: ChatModel) {}

  /** Changes the last turn. */
  change(with_it: (turn: ChatTurn) => ChatTurn): void {
    this.turns.value = this.turns.value.with(-1, with_it(this.turns.value.at(-1)!));
  }
}

function turnOf(role: ChatTurn["role"], text: string): ChatTurn {
  return { role, text, thinking: "", calls: [], is_cut: false };
}

/** The messages of a request: what was said, without the thinking. Calls have no results here, so they are text. */
function messagesOf(turns: readonly ChatTurn[], system: string) {
  const said = turns.map(({ role, text, calls }) => ({
    role,
    content: [text, ...calls.map(({ name, arguments: given }) => `${name}(${given})`)].join("\n").trim(),
  }));
  return [...(system.trim() === "" ? [] : [{ role: "system" as const, content: system }]), ...said];
}

/** The tools of a request; left out where there are none. */
function toolsOf({ tools }: ChatOptions, run: string): { tools?: RequestTool[] } {
  const given = tools?.get(run) ?? [];
  return given.length === 0 ? {} : { tools: given };
}

/** A turn with a piece of an answer. */
export function withChunk(turn: ChatTurn, { choices: [choice] }: ChatCompletionChunk): ChatTurn {
  if (!choice) return turn;
  const { content, reasoning_content, tool_calls } = choice.delta;
  return {
    ...turn,
    text: turn.text + (content ?? ""),
    thinking: turn.thinking + (reasoning_content ?? ""),
    calls: [...turn.calls, ...(tool_calls ?? []).map(({ function: call }) => call)],
    is_cut: choice.finish_reason === "length",
  };
}

function withWhole(turn: ChatTurn, { message, stop_reason }: Generation): ChatTurn {
  const calls = (message.tool_calls ?? []).map(({ function: { name, arguments: given } }) => ({
    name,
    arguments: JSON.stringify(given),
  }));
  return { ...turn, text: message.content, calls, is_cut: stop_reason === "length" };
}

/** Asks the models of a comparison the same. */
export class SideChat {
  readonly columns: readonly ChatColumn[];
  readonly #api: Api;
  readonly #is_streamed: boolean;
  #abort = new AbortController();

  /** @param is_streamed Whether the server serves models; else each answer comes as a whole, one after the other. */
  constructor(api: Api, models: readonly ChatModel[], is_streamed: boolean) {
    this.#api = api;
    this.#is_streamed = is_streamed;
    this.columns = models.map((model) => new ChatColumn(model));
  }

  /** Sends a message to all models; ends when all have answered or failed. */
  async send(prompt: string, options: ChatOptions): Promise<void> {
    const { signal } = this.#abort = new AbortController();
    for (const column of this.columns) {
      column.turns.value = [...answered(column.turns.value), turnOf("user", prompt)];
      column.state.value = "waiting";
      column.error.value = null;
    }
    for (const together of this.#groups()) {
      await Promise.all(together.map((column) => this.#ask(column, options, signal)));
    }
  }

  /** Breaks off all answers. */
  stop(): void {
    this.#abort.abort();
  }

  /** Begins anew. */
  clear(): void {
    this.stop();
    for (const { turns, state, error } of this.columns) {
      turns.value = [];
      state.value = "idle";
      error.value = null;
    }
  }

  /** The columns that are asked at the same time: the server loads one base at a time. */
  #groups(): ChatColumn[][] {
    if (!this.#is_streamed) return this.columns.map((column) => [column]);
    return [...Map.groupBy(this.columns, ({ model }) => model.base).values()];
  }

  async #ask(column: ChatColumn, options: ChatOptions, signal: AbortSignal): Promise<void> {
    try {
      if (!signal.aborted) {
        await (this.#is_streamed
          ? this.#stream(column, options, signal)
          : this.#generate(column, options, signal));
      }
    } catch (error) {
      if (!signal.aborted) column.error.value = error;
    }
    if (signal === this.#abort.signal) column.state.value = "idle";
  }

  async #stream(column: ChatColumn, options: ChatOptions, signal: AbortSignal): Promise<void> {
    const { model: { run, has_adapter }, turns } = column,
      { system, max_tokens, temperature, seed } = options;
    const body = {
      model: has_adapter ? run : `${run}@base`,
      messages: messagesOf(turns.value, system) satisfies ChatMessage[],
      max_completion_tokens: max_tokens,
      temperature,
      seed,
      ...toolsOf(options, run),
      stream: true,
    };
    const response = await this.#api.open("./v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
    const events = response.body!.pipeThrough(new TextDecoderStream()).pipeThrough(
      new EventSourceParserStream(),
    );
    turns.value = [...turns.value, turnOf("assistant", "")];
    column.state.value = "answering";
    let is_done = false;
    for await (const { data } of events) {
      if (data === "[DONE]") is_done = true;
      else {
        const chunk: ChatCompletionChunk | ChatStreamFailure = JSON.parse(data);
        if ("error" in chunk) throw new Error(chunk.error.message);
        column.change((turn) => withChunk(turn, chunk));
      }
    }
    if (!is_done) throw new Unreachable(new Error("the answer broke off"));
  }

  async #generate(column: ChatColumn, options: ChatOptions, signal: AbortSignal): Promise<void> {
    const { model: { run, has_adapter }, turns } = column,
      { system, max_tokens, temperature, seed } = options;
    column.state.value = "answering";
    const answer = await this.#api.call("POST /v1/runs/{id}/generate", {
      params: { id: run },
      body: {
        messages: messagesOf(turns.value, system),
        max_new_tokens: max_tokens,
        temperature,
        top_p: 1,
        seed,
        ...toolsOf(options, run),
        adapter: has_adapter,
      },
      signal,
    });
    turns.value = [...turns.value, withWhole(turnOf("assistant", ""), answer)];
  }
}

/** The turns without a last message that nothing answered: the next request would have two of the user. */
function answered(turns: readonly ChatTurn[]): readonly ChatTurn[] {
  return turns.at(-1)?.role === "user" ? turns.slice(0, -1) : turns;
}
