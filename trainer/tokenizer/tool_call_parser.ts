/** Parses tool calls in Hermes/Qwen form: `<tool_call>{"name", "arguments"}</tool_call>`. */

import type { ParsedTurn } from "../../core/chat.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";
const THINK_OPEN = "<think>";
const THINK_CLOSE = "</think>";

/** The longest call in characters. */
const MAX_TOOL_CALL_CHARS = 1 << 20;

/**
 * Splits a turn's text (without the end token) into thinking, content and calls. Calls inside the thinking are ignored.
 * Never throws: text that is not a valid call is content or malformed.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const call = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.txt"}}\n</tool_call>';
 * const { content, calls, malformed } = parseToolCalls(`I look at it.\n${call}`);
 * assert.equal(content, "I look at it.");
 * assert.deepEqual(calls, [{ id: "call_0", name: "read_file", arguments: { path: "a.txt" } }]);
 * assert.deepEqual(malformed, []);
 * ```
 */
export function parseToolCalls(text: string): ParsedTurn {
  const { reasoning, rest } = splitThinking(text);
  const turn: ParsedTurn = { reasoning, content: "", calls: [], malformed: [] };
  let content = "", at = 0;
  while (true) {
    const open = rest.indexOf(OPEN, at), stray = rest.indexOf(CLOSE, at);
    if (stray >= 0 && (open < 0 || stray < open)) {
      content += rest.slice(at, stray);
      refuse(turn, CLOSE, `${CLOSE} without ${OPEN} before it`);
      at = stray + CLOSE.length;
      continue;
    }
    if (open < 0) break;
    content += rest.slice(at, open);
    const begin = open + OPEN.length, close = rest.indexOf(CLOSE, begin), again = rest.indexOf(OPEN, begin);
    const whole = close >= 0 && (again < 0 || close < again);
    const end = whole ? close : again < 0 ? rest.length : again;
    at = whole ? close + CLOSE.length : end;
    if (whole) readCall(rest.slice(begin, end), turn);
    else refuse(turn, rest.slice(open, end), `the call has no ${CLOSE}`);
  }
  turn.content = (content + rest.slice(at)).trim();
  return turn;
}

function splitThinking(text: string): { reasoning: string | null; rest: string } {
  const opened = text.trimStart().startsWith(THINK_OPEN), close = text.indexOf(THINK_CLOSE);
  const thought = (until: number) => {
    const all = text.slice(0, until);
    return (opened ? all.slice(all.indexOf(THINK_OPEN) + THINK_OPEN.length) : all).trim();
  };
  if (close < 0) {
    return opened ? { reasoning: thought(text.length), rest: "" } : { reasoning: null, rest: text };
  }
  // Without an opening tag the prompt opened the thinking, unless a call comes before the closing tag.
  if (!opened && text.slice(0, close).includes(OPEN)) return { reasoning: null, rest: text };
  return { reasoning: thought(close), rest: text.slice(close + THINK_CLOSE.length) };
}

function refuse(turn: ParsedTurn, text: string, reason: string): void {
  turn.malformed.push({ index: turn.calls.length + turn.malformed.length, text, reason });
}

function readCall(text: string, turn: ParsedTurn): void {
  if (text.length > MAX_TOOL_CALL_CHARS) {
    return refuse(turn, text, `the call is longer than ${MAX_TOOL_CALL_CHARS} characters`);
  }
  let call: unknown;
  try {
    call = parseJson(text);
  } catch (error) {
    return refuse(turn, text, `the call is not valid JSON: ${(error as Error).message}`);
  }
  if (!isJsonObject(call)) return refuse(turn, text, "the call is not a JSON object");
  const { name, arguments: given } = call;
  if (typeof name !== "string" || name === "") {
    return refuse(turn, text, 'the call has no "name" that is a string');
  }
  if (!isJsonObject(given)) return refuse(turn, text, 'the call has no "arguments" that are a JSON object');
  turn.calls.push({ id: `call_${turn.calls.length}`, name, arguments: given });
}
