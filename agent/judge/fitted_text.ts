/** Shortens texts for a judge: the head and the tail stay, and a marker says what is missing. */

import { assert } from "../../core/errors.ts";
import { jsonText } from "../../core/text.ts";

/** The shortest limit for a text: its marker fits, with something before and after it. */
export const MIN_TEXT_CHARS = 80;

/** A text with at most `max` characters, of which at least {@link MIN_TEXT_CHARS} are allowed. */
export function fittedText(text: string, max: number): string {
  assert(max >= MIN_TEXT_CHARS, "a marker fits");
  if (text.length <= max) return text;
  // The number in the marker has at most as many digits as the text's length.
  const room = max - marker(text.length).length;
  const head = Math.ceil(room / 2), tail = room - head;
  const begin = text.slice(0, head), end = tail > 0 ? text.slice(-tail) : "";
  return wholeCharacters(`${begin}${marker(text.length - room)}${end}`);
}

const marker = (missing: number) => `[… ${missing} characters left out …]`;

/** Halves of a character at a cut are dropped. */
function wholeCharacters(text: string): string {
  return text.isWellFormed()
    ? text
    : text.replace(/[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g, "");
}

/** A JSON value as it is where its text is short enough; else the head and tail of its text. */
export function fittedValue(value: unknown, max: number): unknown {
  if (typeof value === "string") return fittedText(value, max);
  const text = jsonText(value);
  return text.length <= max ? value : fittedText(text, max);
}

/** What stands for items in the middle of a list. */
export interface LeftOut {
  left_out: string;
}

/** A list with its first and last items, `max` together, and what stands for the others. */
export function fittedList<T>(items: readonly T[], max: number, noun: string): (T | LeftOut)[] {
  assert(max >= 1, "something stays");
  if (items.length <= max) return [...items];
  const head = Math.ceil(max / 2), tail = max - head;
  const left_out = { left_out: `${items.length - max} ${noun}` };
  return [...items.slice(0, head), left_out, ...(tail > 0 ? items.slice(-tail) : [])];
}
