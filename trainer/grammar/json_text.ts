/** The pieces of JSON text as expressions over bytes: characters, strings, literals. */

import { byteSet } from "./byte_set.ts";
import type { Regex, RegexArena } from "./regex.ts";

/** Inclusive code points. */
export type CodePoints = readonly (readonly [first: number, last: number])[];

export const MAX_CODE_POINT = 0x10ffff;
const SURROGATES = [0xd800, 0xdfff] as const;
const QUOTE = 0x22, BACKSLASH = 0x5c;
/** The end of each length of UTF-8. */
const LAST_OF_LENGTH = [0x7f, 0x7ff, 0xffff, MAX_CODE_POINT];
/** Characters with an escape of their own. */
const SHORT_ESCAPES = new Map([[8, "b"], [9, "t"], [10, "n"], [12, "f"], [13, "r"]]);

/** The ranges in order and without overlaps. */
export function normalizeRanges(ranges: CodePoints): [number, number][] {
  const sorted = ranges.filter(([a, b]) => a <= b).sort((x, y) => x[0] - y[0]),
    merged: [number, number][] = [];
  for (const [first, last] of sorted) {
    const previous = merged.at(-1);
    if (previous && first <= previous[1] + 1) previous[1] = Math.max(previous[1], last);
    else merged.push([first, last]);
  }
  return merged;
}

/** All other code points. */
export function complement(ranges: CodePoints): [number, number][] {
  const others: [number, number][] = [];
  let from = 0;
  for (const [first, last] of normalizeRanges(ranges)) {
    if (first > from) others.push([from, first - 1]);
    from = last + 1;
  }
  if (from <= MAX_CODE_POINT) others.push([from, MAX_CODE_POINT]);
  return others;
}

/** The code points of both. */
function intersect(a: CodePoints, b: CodePoints): [number, number][] {
  return complement([...complement(a), ...complement(b)]);
}

/** The UTF-8 of one character of these; surrogates have none. */
function utf8(arena: RegexArena, ranges: CodePoints): Regex {
  const parts: Regex[] = [];
  for (const [first, last] of intersect(ranges, complement([SURROGATES]))) {
    for (let from = first; from <= last;) {
      const length = LAST_OF_LENGTH.findIndex((end) => from <= end);
      let to = Math.min(last, LAST_OF_LENGTH[length]!);
      // Only the last bytes that differ may take all their values.
      for (let i = 1; i <= length; i++) {
        const mask = 64 ** i - 1;
        if (Math.floor(from / (mask + 1)) === Math.floor(to / (mask + 1))) continue;
        if (from % (mask + 1) !== 0) to = Math.min(to, from - from % (mask + 1) + mask);
        else if (to % (mask + 1) !== mask) to = to - to % (mask + 1) - 1;
      }
      const encode = (point: number) => new TextEncoder().encode(String.fromCodePoint(point));
      const low = encode(from), high = encode(to);
      parts.push(arena.concat(...Array.from(low, (byte, i) => arena.bytes(byteSet([byte, high[i]!])))));
      from = to + 1;
    }
  }
  return arena.either(...parts);
}

/** How `JSON.stringify` writes one of these characters inside a string. */
export function writtenCharacter(arena: RegexArena, ranges: CodePoints): Regex {
  const points = normalizeRanges(ranges);
  return arena.once(`written ${points.join()}`, () => makeWritten(arena, points));
}

function makeWritten(arena: RegexArena, points: CodePoints): Regex {
  const has = (point: number) => points.some(([first, last]) => point >= first && point <= last);
  const escapes: string[] = [];
  for (let point = 0; point < 0x20; point++) {
    const short = SHORT_ESCAPES.get(point);
    if (has(point)) escapes.push(short ? `\\${short}` : `\\u${point.toString(16).padStart(4, "0")}`);
  }
  if (has(QUOTE)) escapes.push('\\"');
  if (has(BACKSLASH)) escapes.push("\\\\");
  const plain = intersect(points, complement([[0, 0x1f], [QUOTE, QUOTE], [BACKSLASH, BACKSLASH]]));
  return arena.either(utf8(arena, plain), ...escapes.map((escape) => arena.text(escape)));
}

/** Any character as `JSON.stringify` writes it. */
export function anyWritten(arena: RegexArena): Regex {
  return writtenCharacter(arena, [[0, MAX_CODE_POINT]]);
}

/** Any character in any of the spellings that JSON allows; a pair of surrogates is one character. */
export function anyCharacter(arena: RegexArena): Regex {
  return arena.once("any", () => makeAny(arena));
}

function makeAny(arena: RegexArena): Regex {
  const range = (text: string) => {
    const pairs = [...text.matchAll(/(.)-(.)/g)];
    return arena.bytes(
      byteSet(...pairs.map(([, a, b]) => [a!.charCodeAt(0), b!.charCodeAt(0)] as const)),
    );
  };
  const hex = range("0-9A-Fa-f"), start = arena.text("\\u"), d = range("D-Dd-d");
  const bmp = arena.either(
    arena.concat(range("0-9A-CE-Fa-ce-f"), hex, hex, hex),
    arena.concat(d, range("0-7"), hex, hex),
  );
  const high = arena.concat(d, range("8-9A-Ba-b"), hex, hex);
  const low = arena.concat(d, range("C-Fc-f"), hex, hex);
  return arena.either(
    utf8(arena, complement([[0, 0x1f], [QUOTE, QUOTE], [BACKSLASH, BACKSLASH]])),
    ...['"', "\\", "/", "b", "f", "n", "r", "t"].map((letter) => arena.text(`\\${letter}`)),
    arena.concat(start, arena.either(bmp, arena.concat(high, start, low))),
  );
}

/** A string of these contents in its quotes. */
export function quoted(arena: RegexArena, contents: Regex): Regex {
  const quote = arena.text('"');
  return arena.concat(quote, contents, quote);
}

/** At most one space, after a comma or a colon. */
export function separator(arena: RegexArena, mark: string): Regex {
  return arena.concat(arena.text(mark), arena.optional(arena.text(" ")));
}

/** A given value, as `JSON.stringify` writes it, with optional single spaces after commas and colons. */
export function writtenValue(arena: RegexArena, value: unknown): Regex {
  const list = (items: Regex[]) =>
    arena.concat(...items.flatMap((item, i) => i === 0 ? [item] : [separator(arena, ","), item]));
  if (Array.isArray(value)) {
    return arena.concat(
      arena.text("["),
      list(value.map((item) => writtenValue(arena, item))),
      arena.text("]"),
    );
  }
  if (typeof value !== "object" || value === null) return arena.text(JSON.stringify(value));
  const entries = Object.entries(value).map(([key, item]) =>
    arena.concat(arena.text(JSON.stringify(key)), separator(arena, ":"), writtenValue(arena, item))
  );
  return arena.concat(arena.text("{"), list(entries), arena.text("}"));
}
