/** Finds the JSON that a model was asked for in its answer, which may be any text. */

import { isJsonObject, parseJson } from "../json.ts";

/** The most places in a text where an object may begin. */
export const MAX_STARTS = 100;

/** The objects with a field: the whole answer, or objects between other text, such as a fence or thoughts. */
export function answerObjects(text: string, field: string): Record<string, unknown>[] {
  const answer = text.replace(/^\s*<think>[\s\S]*?<\/think>/, "").trim();
  const whole = parsed(answer);
  const found = whole === undefined ? embeddedObjects(answer) : [whole];
  return found.filter(isJsonObject).filter((value) => Object.hasOwn(value, field));
}

/** Undefined: no JSON. */
function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

/** The outermost objects in a text. */
function embeddedObjects(text: string): unknown[] {
  const found: unknown[] = [];
  let starts = 0;
  for (let at = text.indexOf("{"); at >= 0 && starts < MAX_STARTS; starts++) {
    const end = objectEnd(text, at);
    const value = end === null ? undefined : parsed(text.slice(at, end));
    if (value !== undefined) found.push(value);
    at = text.indexOf("{", value === undefined ? at + 1 : end!);
  }
  return found;
}

/** The place after the brace that closes the one at `start`; null when none does. */
function objectEnd(text: string, start: number): number | null {
  let depth = 0, in_string = false;
  for (let i = start; i < text.length; i++) {
    const char = text[i];
    if (in_string) {
      if (char === "\\") i++;
      else if (char === '"') in_string = false;
    } else if (char === '"') in_string = true;
    else if (char === "{") depth++;
    else if (char === "}" && --depth === 0) return i + 1;
  }
  return null;
}
