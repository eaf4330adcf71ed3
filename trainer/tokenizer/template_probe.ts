/** Finds properties of a chat template by rendering test conversations. */

import type { ChatMessage, ToolCallFormatName, ToolDefinition } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Renderer, RenderOptions } from "./renderer.ts";
import { THINK_CLOSE, THINK_OPEN } from "./thinking.ts";
import { parseToolCalls } from "./tool_call_parser.ts";
import { formatOf } from "./tool_calls/registry.ts";

/** The results of the test renders. */
export interface TemplateProbe {
  /** Whether the render of n + 1 messages extends the render of n, over turns with tools and over questions. */
  prefix_stable: boolean;
  /** The same within one question: only calls and results, as in a trajectory. */
  tool_loop_stable: boolean;
  /** Whether the thinking of earlier turns stays in the text; null when the template renders no thinking. */
  keeps_thinking: boolean | null;
  /** The number of begin tokens in a prompt; more than 1 is an error. */
  bos_count: number;
  tool_call_format: ToolCallFormatName;
  /** Whether the parser returns a call as it was rendered. */
  tool_call_round_trip: boolean;
  /** The token that ends a turn; null when a model could never learn to stop. */
  turn_end: string | null;
  /** The failures of the template, in its own words. */
  problems: string[];
}

const PROBE_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: "probe_tool",
    description: "A probe.",
    parameters: { type: "object", properties: { value: { type: "string" } }, required: ["value"] },
  },
};
const PROBE_ARGUMENTS = { value: 'a "quoted" <b> & ü\n', list: [1, 2.5, null, true], nested: { key: "" } };
const THOUGHT = "a probed thought";

const SYSTEM: ChatMessage = { role: "system", content: "Probe." };
const QUESTION: ChatMessage = { role: "user", content: "First?" };
const SECOND_QUESTION: ChatMessage = { role: "user", content: "Second?" };
const ANSWER: ChatMessage = { role: "assistant", content: "An answer." };
const RESULT: ChatMessage = {
  role: "tool",
  content: "A result.",
  tool_call_id: "probecall",
  name: "probe_tool",
};
const CALL: ChatMessage = {
  role: "assistant",
  content: "",
  tool_calls: [{
    id: "probecall",
    type: "function",
    function: { name: PROBE_TOOL.function.name, arguments: PROBE_ARGUMENTS },
  }],
};

/** Probes a renderer's template with a run's variables. Never throws because of the template. */
export function probeTemplate(
  renderer: Renderer,
  variables: Readonly<Record<string, unknown>>,
): TemplateProbe {
  const problems: string[] = [];
  let is_beyond = false;
  const attempt = <T>(run: () => T, otherwise: T): T => {
    // A template that exceeds a limit would do so in every render, which takes time.
    if (is_beyond) return otherwise;
    try {
      return run();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      is_beyond = error.details.limit !== undefined;
      if (!problems.includes(error.message)) problems.push(error.message);
      return otherwise;
    }
  };
  const with_tools: RenderOptions = { tools: [PROBE_TOOL], variables },
    plain: RenderOptions = { tools: [], variables };
  const stable = (messages: ChatMessage[], options: RenderOptions) => {
    return attempt(() => isPrefixStable(renderer, messages, options), false);
  };
  const written = attempt(() => renderedCall(renderer, with_tools), "");
  const tool_call_format = written.includes(PROBE_TOOL.function.name) ? formatOf(written) : "none";
  const tool_loop_stable = stable([SYSTEM, QUESTION, CALL, RESULT, CALL, RESULT, ANSWER], with_tools);
  return {
    prefix_stable: stable([SYSTEM, QUESTION, ANSWER, SECOND_QUESTION, ANSWER], plain) &&
      (tool_loop_stable || tool_call_format === "none"),
    tool_loop_stable,
    keeps_thinking: attempt(() => keepsThinking(renderer, plain), null),
    bos_count: attempt(() => countBos(renderer, plain), 0),
    tool_call_format,
    tool_call_round_trip: comesBack(written, tool_call_format),
    turn_end: attempt(() => renderer.turnEnd(plain)?.text ?? null, null),
    problems,
  };
}

/** Whether each turn follows its prompt, and each prompt the previous turn, exactly. */
function isPrefixStable(
  renderer: Renderer,
  messages: readonly ChatMessage[],
  options: RenderOptions,
): boolean {
  const end = renderer.turnEnd(options)?.text;
  let before = "";
  for (let i = 0; i < messages.length; i++) {
    if (messages[i]!.role !== "assistant") continue;
    const prompt = renderer.renderText(messages.slice(0, i), true, options);
    const whole = renderer.renderText(messages.slice(0, i + 1), false, options);
    if (!prompt.startsWith(before) || !whole.startsWith(prompt)) return false;
    const at = end === undefined ? -1 : whole.lastIndexOf(end);
    before = at < prompt.length ? whole : whole.slice(0, at + end!.length);
  }
  return true;
}

function keepsThinking(renderer: Renderer, options: RenderOptions): boolean | null {
  const thoughtful: ChatMessage = { ...ANSWER, reasoning_content: THOUGHT };
  const tagged: ChatMessage = {
    ...ANSWER,
    content: `${THINK_OPEN}\n${THOUGHT}\n${THINK_CLOSE}\n\n${ANSWER.content}`,
  };
  const forms = [thoughtful, tagged].filter((turn) => {
    return renderer.renderText([QUESTION, turn], false, options).includes(THOUGHT);
  });
  if (forms.length === 0) return null;
  return forms.every((turn) => {
    return renderer.renderText([QUESTION, turn, SECOND_QUESTION], true, options).includes(THOUGHT);
  });
}

function countBos(renderer: Renderer, options: RenderOptions): number {
  const { bos_id } = renderer.tokenizer;
  return renderer.renderPrompt([QUESTION], options).ids.filter((id) => id === bos_id).length;
}

/** The template's text between a prompt and the end of a turn with a call. */
function renderedCall(renderer: Renderer, options: RenderOptions): string {
  const prompt = renderer.renderText([QUESTION], true, options);
  const whole = renderer.renderText([QUESTION, CALL], false, options);
  const text = whole.startsWith(prompt) ? whole.slice(prompt.length) : whole.slice(whole.indexOf("First?"));
  const end = renderer.turnEnd(options)?.text, at = end === undefined ? -1 : text.lastIndexOf(end);
  return at < 0 ? text : text.slice(0, at);
}

function comesBack(written: string, format: ToolCallFormatName): boolean {
  const { calls, malformed } = parseToolCalls(written, { format, has_tools: true });
  if (calls.length !== 1 || malformed.length > 0) return false;
  const { name, arguments: given } = calls[0]!;
  return name === PROBE_TOOL.function.name && JSON.stringify(given) === JSON.stringify(PROBE_ARGUMENTS);
}
