/** The text that a model sees of a call's result. */

import { isJsonObject } from "../../core/json.ts";
import type { CallOutcome } from "./sdk.ts";

/** The most characters of a result that a model sees. */
export const MAX_RESULT_CHARS = 32_768;

/**
 * The texts of a result, one below the other. Other kinds of content are named in brackets. A result without content
 * shows its structured content as JSON. An error, of the tool or of the server, begins with `error:`. What is beyond
 * {@link MAX_RESULT_CHARS} is replaced by its length.
 */
export function resultText(outcome: CallOutcome): string {
  if ("refusal" in outcome) return cut(`error: ${outcome.refusal}`);
  const { content, structured, is_error } = outcome;
  const parts = content.map(partText);
  if (parts.length === 0 && structured !== undefined) parts.push(JSON.stringify(structured));
  return cut(`${is_error ? "error: " : ""}${parts.join("\n")}`);
}

function partText(part: unknown): string {
  const { type, text, mimeType, resource, uri } = isJsonObject(part) ? part : {};
  if (type === "text" && typeof text === "string") return text;
  if (type === "resource" && isJsonObject(resource)) {
    return typeof resource.text === "string" ? resource.text : bracketed("resource", resource.uri);
  }
  if (type === "resource_link") return bracketed("resource", uri);
  return bracketed(typeof type === "string" ? type : "content", mimeType);
}

/** A long name is cut, because it is not content. */
function bracketed(kind: string, name: unknown): string {
  const short = (text: string) => text.slice(0, 200);
  return typeof name === "string" ? `[${short(kind)}: ${short(name)}]` : `[${short(kind)}]`;
}

function cut(text: string): string {
  if (text.length <= MAX_RESULT_CHARS) return text.toWellFormed();
  const left_out = text.length - MAX_RESULT_CHARS;
  return `${text.slice(0, MAX_RESULT_CHARS).toWellFormed()}\n[${left_out} characters left out]`;
}
