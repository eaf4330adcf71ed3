/** Hermes and Qwen: `<tool_call>{"name", "arguments"}</tool_call>`, any number of times and anywhere in the content. */

import { type ParsedText, readJsonCall, type ToolCallFormat } from "../tool_call_format.ts";

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** A call that is not closed ends at the next one, so it does not hide others. */
export const hermes = {
  isIn: (rendered) => rendered.includes(OPEN),
  syntax: { begins: [OPEN], place: "anywhere", end: CLOSE, needs_tools: false, parse },
} satisfies ToolCallFormat;

function parse(text: string): ParsedText {
  const parsed: ParsedText = { content: "", calls: [], malformed: [] };
  let content = "", at = 0;
  while (true) {
    const open = text.indexOf(OPEN, at), stray = text.indexOf(CLOSE, at);
    if (stray >= 0 && (open < 0 || stray < open)) {
      content += text.slice(at, stray);
      refuse(parsed, CLOSE, `${CLOSE} without ${OPEN} before it`);
      at = stray + CLOSE.length;
      continue;
    }
    if (open < 0) break;
    content += text.slice(at, open);
    const begin = open + OPEN.length, close = text.indexOf(CLOSE, begin), again = text.indexOf(OPEN, begin);
    const whole = close >= 0 && (again < 0 || close < again);
    const end = whole ? close : again < 0 ? text.length : again;
    at = whole ? close + CLOSE.length : end;
    if (whole) take(parsed, text.slice(begin, end));
    else refuse(parsed, text.slice(open, end), `the call has no ${CLOSE}`);
  }
  parsed.content = (content + text.slice(at)).trim();
  return parsed;
}

function take(parsed: ParsedText, text: string): void {
  const call = readJsonCall(text, "arguments");
  if ("reason" in call) refuse(parsed, text, call.reason);
  else parsed.calls.push({ id: `call_${parsed.calls.length}`, ...call });
}

function refuse({ calls, malformed }: ParsedText, text: string, reason: string): void {
  malformed.push({ index: calls.length + malformed.length, text, reason });
}
