/** The interface of all formats of tool calls. A format is a file in `tool_calls/` and an entry of its registry. */

import type { ParsedTurn } from "../../core/chat.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";

/** The longest call in characters. */
const MAX_TOOL_CALL_CHARS = 1 << 20;

/** A turn's text without its thinking, as content and calls. */
export type ParsedText = Omit<ParsedTurn, "reasoning">;

/** How calls are written in a turn. A reader of streams holds a text back from the beginning of a call to its end. */
export interface CallSyntax {
  /** The texts with which a call begins. */
  readonly begins: readonly string[];
  /** Where a call may begin: anywhere in the content, or only at its start. */
  readonly place: "anywhere" | "start";
  /** The text that ends a call; null: the end of the turn. */
  readonly end: string | null;
  /** Whether there are calls only where tools are offered. Other turns may begin like a call and be an answer. */
  readonly needs_tools: boolean;
  /** Splits a turn's text without its thinking. Never throws: text that is not a valid call is content or malformed. */
  parse(text: string): ParsedText;
}

export interface ToolCallFormat {
  /** Whether a chat template's text of a turn with a call has this format. */
  isIn(rendered: string): boolean;
  readonly syntax: CallSyntax;
}

/**
 * Reads a call that is a JSON object with its name and arguments.
 *
 * @param arguments_key The key of the arguments.
 * @returns The reason, for the model, when the text is not such a call.
 */
export function readJsonCall(
  text: string,
  arguments_key: string,
): NamedCall | { reason: string } {
  const read = readJson(text);
  return "reason" in read ? read : readCall(read.value, arguments_key);
}

/** A call's name and arguments. */
export interface NamedCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** The JSON of a call or of several, or the reason why it cannot be read. */
export function readJson(text: string): { value: unknown } | { reason: string } {
  if (text.length > MAX_TOOL_CALL_CHARS) {
    return { reason: `the call is longer than ${MAX_TOOL_CALL_CHARS} characters` };
  }
  try {
    return { value: parseJson(text) };
  } catch (error) {
    return { reason: `the call is not valid JSON: ${(error as Error).message}` };
  }
}

/** A call that has been parsed as JSON; see {@link readJsonCall}. */
export function readCall(call: unknown, arguments_key: string): NamedCall | { reason: string } {
  if (!isJsonObject(call)) return { reason: "the call is not a JSON object" };
  const { name, [arguments_key]: given } = call;
  if (typeof name !== "string" || name === "") {
    return { reason: 'the call has no "name" that is a string' };
  }
  if (!isJsonObject(given)) {
    return { reason: `the call has no "${arguments_key}" that are a JSON object` };
  }
  return { name, arguments: given };
}
