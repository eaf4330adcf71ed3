/** A model's tokenizer and chat template in the form that rollouts use. */

import { type Message, openAiTool, type ParsedTurn, type ToolFunction } from "../../core/chat.ts";
import type { Renderer, RenderOptions } from "../../trainer/tokenizer/renderer.ts";
import type { TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";
import { parseToolCalls } from "../../trainer/tokenizer/tool_call_parser.ts";
import type { ChatFormat, Continuation } from "./chat_format.ts";

export interface RenderedChatOptions {
  renderer: Renderer;
  /** The template's stable parts; a part that is not stable is rendered again each turn. */
  probe: TemplateProbe;
  /** `[agent] template_variables`. */
  variables: Readonly<Record<string, unknown>>;
}

/**
 * The chat format of a real model, from its template and its tokenizer.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGguf } from "../../trainer/formats/gguf.ts";
 * import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
 * import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";
 * import { Renderer } from "../../trainer/tokenizer/renderer.ts";
 * import { probeTemplate } from "../../trainer/tokenizer/template_probe.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
 * const chat = new RenderedChat({ renderer, probe: probeTemplate(renderer, {}), variables: {} });
 * const tokens = chat.promptTokens([{ role: "user", content: "Hi" }], []);
 * assert.match(chat.decode(tokens), /<\|im_start\|>user\nHi<\|im_end\|>/);
 * ```
 */
export class RenderedChat implements ChatFormat {
  readonly stop_tokens: number[];
  readonly #options: RenderedChatOptions;
  readonly #render_options = new WeakMap<readonly ToolFunction[], RenderOptions>();

  constructor(options: RenderedChatOptions) {
    this.#options = options;
    this.stop_tokens = [...options.renderer.tokenizer.end_ids];
  }

  promptTokens(
    messages: readonly Message[],
    tools: readonly ToolFunction[],
    max_tokens?: number,
  ): number[] {
    return this.#options.renderer.renderPrompt(messages, this.#renderOptions(tools), max_tokens).ids;
  }

  decode(tokens: readonly number[]): string {
    return this.#options.renderer.tokenizer.decode(tokens, { special: true });
  }

  parseTurn(text: string, tools: readonly ToolFunction[]): ParsedTurn {
    const { tool_call_format: format } = this.#options.probe;
    return parseToolCalls(text, { format, has_tools: tools.length > 0 });
  }

  continuation(request: Parameters<ChatFormat["continuation"]>[0]): Continuation {
    const { messages, turn, tools, ended_by } = request;
    const { renderer, probe } = this.#options;
    const options = this.#renderOptions(tools);
    const added = messages.slice(turn + 1);
    const results_only = added.every(({ role }) => role === "tool");
    if (!(results_only ? probe.tool_loop_stable : probe.prefix_stable)) {
      return { type: "restart", tokens: this.promptTokens(messages, tools) };
    }
    const ended = renderer.turnEnd(options)?.id === ended_by;
    const { ids, origins } = renderer.renderSuffix({ messages: added, ended }, options);
    const forced = origins.filter((origin) => origin === "forced").length;
    return {
      type: "extend",
      forced: ids.slice(0, forced),
      tokens: ids.slice(forced),
      origin: results_only ? "tool" : "prompt",
    };
  }

  #renderOptions(tools: readonly ToolFunction[]): RenderOptions {
    let options = this.#render_options.get(tools);
    if (!options) {
      options = { tools: tools.map(openAiTool), variables: this.#options.variables };
      this.#render_options.set(tools, options);
    }
    return options;
  }
}
