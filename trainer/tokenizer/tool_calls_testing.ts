/** Turns in each format of tool calls, for the tests of all its readers. */

import type { ToolCallFormatName } from "../../core/chat.ts";

/** Turns in one format. */
export interface CallCases {
  /** A turn with one call, as the format's models write it. */
  written: (call: { name: string; arguments: object }) => string;
  /** Turns with one malformed call and no content, and the reason. */
  malformed: readonly (readonly [text: string, reason: RegExp])[];
  /** Turns without a call, although parts of one are in them. */
  content: readonly string[];
  /** Parts of turns, from which random ones are made. */
  pieces: readonly string[];
}

/** Arrays in arrays. The call and its arguments are two more levels. */
const nested = (depth: number) => `${"[".repeat(depth)}${"]".repeat(depth)}`;

/** By format. */
export const CALL_CASES: Readonly<Record<Exclude<ToolCallFormatName, "none">, CallCases>> = {
  hermes: {
    written: (call) => `<tool_call>\n${JSON.stringify(call)}\n</tool_call>`,
    malformed: [
      ['<tool_call>\n{"name": "submit", "arguments": {}}\n', /no <\/tool_call>/],
      ['<tool_call>{"name": "submit", "arguments": {}</tool_call>', /not valid JSON/],
      ["<tool_call>[]</tool_call>", /not a JSON object/],
      ['<tool_call>{"arguments": {}}</tool_call>', /no "name"/],
      ['<tool_call>{"name": "submit", "parameters": {}}</tool_call>', /no "arguments"/],
      [`<tool_call>{"name": "f", "arguments": {"x": ${nested(63)}}}</tool_call>`, /more than 64 levels/],
      [`<tool_call>${" ".repeat(1 << 20)}{}</tool_call>`, /longer than 1048576/],
    ],
    content: ['{"name": "submit", "arguments": {}}', "<tool_box>", "tool_call", "<|python_tag|>{}"],
    pieces: ["<tool_call>", "</tool_call>", "<think>", "</think>", '{"name":"a",', '"arguments":{}}', "x"],
  },
  llama3_json: {
    written: ({ name, arguments: parameters }) => JSON.stringify({ name, parameters }),
    malformed: [
      ['{"name": "submit", "parameters": {', /not valid JSON.*one JSON object and nothing else/],
      ["{'name': 'submit', 'parameters': {}}", /not valid JSON/],
      ['{"name": "submit", "parameters": {}}; {"name": "submit", "parameters": {}}', /not valid JSON/],
      ['{"name": "submit", "parameters": {}} Done.', /not valid JSON/],
      ['{"parameters": {}}', /no "name"/],
      ['{"name": 1, "parameters": {}}', /no "name"/],
      ['{"name": "submit"}', /no "parameters"/],
      ['{"name": "submit", "arguments": {}}', /no "parameters"/],
      ['{"name": "submit", "parameters": "{}"}', /no "parameters"/],
      [`{"name": "f", "parameters": {"x": ${nested(63)}}}`, /more than 64 levels/],
      ["<|python_tag|>", /not valid JSON/],
      ['<|python_tag|>brave_search.call(query="x")', /not valid JSON/],
      ['<|python_tag|>[{"name": "submit", "parameters": {}}]', /not a JSON object/],
      ['<|python_tag|>{"answer": 84}', /no "name"/],
      [`{"name": "submit", "parameters": {}${" ".repeat(1 << 20)}}`, /longer than 1048576/],
    ],
    content: [
      '{"answer": {"name": "x", "parameters": {}}}',
      "{}",
      'I call {"name": "submit", "parameters": {}}',
      '[{"name": "submit", "parameters": {}}]',
      "Then <|python_tag|>",
      "<|python",
      '<tool_call>{"name": "submit", "arguments": {}}</tool_call>',
    ],
    pieces: ["<|python_tag|>", "<think>", "</think>", '{"name":"a",', '"parameters":{}}', "; ", "x"],
  },
  mistral: {
    written: (call) => `[TOOL_CALLS][${JSON.stringify({ ...call, id: "abcdef123" })}]`,
    malformed: [
      ["[TOOL_CALLS]", /not valid JSON.*end the turn/],
      ['[TOOL_CALLS][{"name": "submit", "arguments": {}}', /not valid JSON/],
      ['[TOOL_CALLS][{"name": "submit", "arguments": {}}] Done.', /not valid JSON.*end the turn/],
      ["[TOOL_CALLS]submit[ARGS]{}", /not valid JSON/],
      ['[TOOL_CALLS]{"name": "submit", "arguments": {}}', /no[t] followed by a JSON list/],
      ["[TOOL_CALLS][]", /has no call/],
      ["[TOOL_CALLS] [3]", /^the call is not a JSON object/],
      ['[TOOL_CALLS][{"arguments": {}}]', /^the call has no "name"/],
      ['[TOOL_CALLS][{"name": "submit", "parameters": {}}]', /no "arguments"/],
      [
        '[TOOL_CALLS][{"name": "a", "arguments": {}}, {"name": "a"}]',
        /^call 2 of the list: .*no "arguments"/,
      ],
      [`[TOOL_CALLS][{"name": "f", "arguments": {"x": ${nested(62)}}}]`, /more than 64 levels/],
      [`[TOOL_CALLS]${" ".repeat(1 << 20)}[]`, /longer than 1048576/],
    ],
    content: [
      '[{"name": "submit", "arguments": {}}]',
      "TOOL_CALLS",
      "[TOOL_CALL",
      '<tool_call>{"name": "submit", "arguments": {}}</tool_call>',
    ],
    pieces: ["[TOOL_CALLS]", "[", "<think>", "</think>", '{"name":"a",', '"arguments":{}}', "]", ", ", "x"],
  },
};
