/** The text that a model sees of a call's result. */

import { type Redact, redactedHead } from "../../core/chat_api/redact.ts";
import { isJsonObject } from "../../core/json.ts";
import type { CallOutcome } from "./sdk.ts";

/** The most characters of a result that a model sees. */
export const MAX_RESULT_CHARS = 32_768;

/** The most characters of the name of a content without text. */
const MAX_NAME_CHARS = 200;

/**
 * The texts of a result, one below the other. Other kinds of content are named in brackets. A result without content
 * shows its structured content as JSON. An error, of the tool or of the server, begins with `error:`. What is beyond
 * {@link MAX_RESULT_CHARS} is replaced by its length. Texts are redacted before they are cut.
 */
export function resultText(outcome: CallOutcome, redact: Redact): string {
  if ("refusal" in outcome) return cut(`error: ${outcome.refusal}`, redact);
  const { content, structured, is_error } = outcome;
  const parts = content.map((part) => partText(part, redact));
  if (parts.length === 0 && structured !== undefined) parts.push(JSON.stringify(structured));
  return cut(`${is_error ? "error: " : ""}${parts.join("\n")}`, redact);
}

function partText(part: unknown, redact: Redact): string {
  const bracketed = (kind: string, name: unknown) => {
    // A long name is cut, because it is not content.
    const short = (text: string) => redactedHead(text, MAX_NAME_CHARS, redact);
    return typeof name === "string" ? `[${short(kind)}: ${short(name)}]` : `[${short(kind)}]`;
  };
  const { type, text, mimeType, resource, uri } = isJsonObject(part) ? part : {};
  if (type === "text" && typeof text === "string") return text;
  if (type === "resource" && isJsonObject(resource)) {
    return typeof resource.text === "string" ? resource.text : bracketed("resource", resource.uri);
  }
  if (type === "resource_link") return bracketed("resource", uri);
  return bracketed(typeof type === "string" ? type : "content", mimeType);
}

function cut(text: string, redact: Redact): string {
  const head = redactedHead(text, MAX_RESULT_CHARS, redact), left_out = text.length - MAX_RESULT_CHARS;
  return left_out > 0 ? `${head}\n[${left_out} characters left out]` : head;
}
