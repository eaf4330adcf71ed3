/** Shortens texts for a judge: the head and the tail stay, and a marker says what is missing. */

import { assert } from "../../core/errors.ts";
import { jsonText } from "../../core/text.ts";

/** The shortest limit for a text in characters: its marker fits, with something before and after it. */
export const MIN_TEXT_CHARS = 80;

/** In what texts are measured and cut. */
export interface TextUnits {
  name: "characters" | "tokens";
  /** The shortest limit for a text: its marker fits, with something before and after it. */
  least: number;
  length(text: string): number;
  /** The first and the last units of a longer text. Halves of a character at a cut are dropped. */
  ends(text: string, head: number, tail: number): [begin: string, end: string];
}

/** UTF-16 units. */
export const CHARACTERS: TextUnits = {
  name: "characters",
  least: MIN_TEXT_CHARS,
  length: (text) => text.length,
  ends: (text, head, tail) => {
    const end = tail > 0 ? text.slice(-tail) : "";
    return [text.slice(0, head).replace(/[\ud800-\udbff]$/, ""), end.replace(/^[\udc00-\udfff]/, "")];
  },
};

/** A text with at most `max` units, of which at least `units.least` are allowed. */
export function fittedText(text: string, max: number, units: TextUnits = CHARACTERS): string {
  assert(max >= units.least, "a marker fits");
  const length = units.length(text);
  if (length <= max) return text;
  const marker = (missing: number) => `[… ${missing} ${units.name} left out …]`;
  // The number in the marker has at most as many digits as the text's length.
  const room = max - units.length(marker(length));
  const head = Math.ceil(room / 2), [begin, end] = units.ends(text, head, room - head);
  return `${begin}${marker(length - room)}${end}`;
}

/** A JSON value as it is where its text is short enough; else the head and tail of its text. */
export function fittedValue(value: unknown, max: number, units: TextUnits): unknown {
  if (typeof value === "string") return fittedText(value, max, units);
  const text = jsonText(value);
  return units.length(text) <= max ? value : fittedText(text, max, units);
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
