/**
 * Llama 3's JSON: a turn that is one object `{"name", "parameters"}`, with or without `<|python_tag|>` before it. Its
 * templates refuse turns with several calls. So a second call, like any text after the object, makes the turn malformed.
 */

import { isJsonObject, parseJson } from "../../../core/json.ts";
import { type ParsedText, readJsonCall, type ToolCallFormat } from "../tool_call_format.ts";

const PYTHON_TAG = "<|python_tag|>";
const OPEN = "{";

export const llama3Json = {
  isIn: (rendered) => /"name"\s*:.*"parameters"\s*:/s.test(rendered),
  syntax: { begins: [PYTHON_TAG, OPEN], place: "start", end: null, needs_tools: true, parse },
} satisfies ToolCallFormat;

function parse(text: string): ParsedText {
  const content = text.trim(), is_tagged = content.startsWith(PYTHON_TAG);
  const plain: ParsedText = { content, calls: [], malformed: [] };
  if (!is_tagged && (!content.startsWith(OPEN) || isAnswer(content))) return plain;
  const call = readJsonCall(is_tagged ? content.slice(PYTHON_TAG.length) : content, "parameters");
  if (!("reason" in call)) return { content: "", calls: [{ id: "call_0", ...call }], malformed: [] };
  const reason = `${call.reason}; a turn with a call is one JSON object and nothing else`;
  return { content: "", calls: [], malformed: [{ index: 0, text: content, reason }] };
}

/** Whether a text is a JSON object with neither key of a call: models are asked for such answers too. */
function isAnswer(text: string): boolean {
  try {
    const value = parseJson(text);
    return isJsonObject(value) && !("name" in value) && !("parameters" in value);
  } catch {
    return false;
  }
}
