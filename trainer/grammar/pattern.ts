/**
 * The patterns of JSON schemas: ECMAScript's regular expressions with the `u` flag, without look-around, back
 * references and word boundaries. A pattern matches anywhere in a string, so what is not anchored may be surrounded.
 */

import { MAX_PATTERN_LENGTH } from "./limits.ts";
import {
  type CodePoints,
  complement,
  MAX_CODE_POINT,
  normalizeRanges,
  writtenCharacter,
} from "./json_text.ts";
import type { Regex, RegexArena } from "./regex.ts";

/** A pattern that is wrong, or that no automaton of ours can follow. */
export class UnsupportedPattern extends Error {}

type Node =
  | { type: "set"; ranges: CodePoints }
  | { type: "sequence"; items: Node[] }
  | { type: "either"; items: Node[] }
  | { type: "repeat"; item: Node; min: number; max: number }
  | { type: "start" }
  | { type: "end" };

const DIGIT: CodePoints = [[0x30, 0x39]];
const WORD: CodePoints = [[0x30, 0x39], [0x41, 0x5a], [0x5f, 0x5f], [0x61, 0x7a]];
/** WhiteSpace and LineTerminator of ECMA-262. */
const SPACE: CodePoints = [
  ...[[9, 13], [0x20, 0x20], [0xa0, 0xa0], [0x1680, 0x1680], [0x2000, 0x200a], [0x2028, 0x2029]] as const,
  ...[[0x202f, 0x202f], [0x205f, 0x205f], [0x3000, 0x3000], [0xfeff, 0xfeff]] as const,
];
const LINE_END: CodePoints = [[10, 10], [13, 13], [0x2028, 0x2029]];
const CLASSES: Readonly<Record<string, CodePoints>> = {
  d: DIGIT,
  w: WORD,
  s: SPACE,
  D: complement(DIGIT),
  W: complement(WORD),
  S: complement(SPACE),
};
const CONTROLS: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, 0: 0 };
/** Deeper groups are refused. */
const MAX_GROUPS = 50;

/** The strings, as JSON writes them without quotes, in which the pattern matches. @throws {UnsupportedPattern} */
export function patternText(arena: RegexArena, pattern: string): Regex {
  if (pattern.length > MAX_PATTERN_LENGTH) {
    throw new UnsupportedPattern(`${pattern.length} characters are above ${MAX_PATTERN_LENGTH}`);
  }
  const root = new PatternParser(pattern).parse();
  const any = writtenCharacter(arena, [[0, MAX_CODE_POINT]]);
  const around = arena.repeat(any, 0, Infinity);
  return arena.either(
    ...branches(root).map(({ items, is_start, is_end }) =>
      arena.concat(
        is_start ? arena.empty : around,
        ...items.map((item) => convert(arena, item)),
        is_end ? arena.empty : around,
      )
    ),
  );
}

/** An alternative without its anchors. */
interface Branch {
  items: Node[];
  is_start: boolean;
  is_end: boolean;
}

/** The alternatives of a pattern; groups at its ends are multiplied out where they have anchors. */
function branches(root: Node): Branch[] {
  const found: Branch[] = [], open = [{ items: [root], is_start: false, is_end: false }];
  for (const branch of open) {
    if (open.length > MAX_PATTERN_LENGTH) {
      throw new UnsupportedPattern("it has too many anchored alternatives");
    }
    const { items } = branch, last = items.length - 1;
    const at = [0, last].find((i) => items[i] && hasAnchor(items[i]!));
    const node = at === undefined ? null : items[at]!;
    if (at === undefined || !node) found.push(branch);
    else if (node.type === "start" && at === 0) {
      open.push({ ...branch, items: items.slice(1), is_start: true });
    } else if (node.type === "end" && at === last) {
      open.push({ ...branch, items: items.slice(0, -1), is_end: true });
    } else if (node.type === "sequence") {
      open.push({ ...branch, items: items.toSpliced(at, 1, ...node.items) });
    } else if (node.type === "either") {
      for (const item of node.items) open.push({ ...branch, items: items.with(at, item) });
    } else found.push(branch);
  }
  return found;
}

function hasAnchor(node: Node): boolean {
  if (node.type === "start" || node.type === "end") return true;
  if (node.type === "repeat") return hasAnchor(node.item);
  return node.type !== "set" && node.items.some(hasAnchor);
}

function convert(arena: RegexArena, node: Node): Regex {
  switch (node.type) {
    case "set":
      return writtenCharacter(arena, node.ranges);
    case "sequence":
      return arena.concat(...node.items.map((item) => convert(arena, item)));
    case "either":
      return arena.either(...node.items.map((item) => convert(arena, item)));
    case "repeat":
      return arena.repeat(convert(arena, node.item), node.min, node.max);
    case "start":
    case "end":
      throw new UnsupportedPattern("^ and $ are supported at the ends of a pattern only");
  }
}

class PatternParser {
  readonly #units: string[];
  #at = 0;
  #groups = 0;

  constructor(pattern: string) {
    this.#units = [...pattern];
  }

  parse(): Node {
    const node = this.#either();
    if (this.#at < this.#units.length) throw new UnsupportedPattern("a ) closes no group");
    return node;
  }

  #peek(): string | undefined {
    return this.#units[this.#at];
  }

  #take(text: string): boolean {
    if (!this.#units.slice(this.#at, this.#at + text.length).join("").startsWith(text)) return false;
    this.#at += text.length;
    return true;
  }

  #either(): Node {
    const items = [this.#sequence()];
    while (this.#take("|")) items.push(this.#sequence());
    return items.length === 1 ? items[0]! : { type: "either", items };
  }

  #sequence(): Node {
    const items: Node[] = [];
    for (let unit = this.#peek(); unit !== undefined && unit !== "|" && unit !== ")"; unit = this.#peek()) {
      items.push(this.#quantified(this.#atom()));
    }
    return { type: "sequence", items };
  }

  #quantified(item: Node): Node {
    const bounds = this.#bounds();
    if (!bounds) return item;
    if (item.type === "start" || item.type === "end") throw new UnsupportedPattern("an anchor is repeated");
    this.#take("?"); // A lazy repetition matches the same strings.
    if (this.#bounds()) throw new UnsupportedPattern("a repetition is repeated without a group");
    return { type: "repeat", item, ...bounds };
  }

  #bounds(): { min: number; max: number } | null {
    if (this.#take("*")) return { min: 0, max: Infinity };
    if (this.#take("+")) return { min: 1, max: Infinity };
    if (this.#take("?")) return { min: 0, max: 1 };
    const found = /^\{(\d+)(?:(,)(\d*))?\}/.exec(this.#units.slice(this.#at, this.#at + 24).join(""));
    if (!found) return null;
    this.#at += found[0].length;
    const min = Number(found[1]), max = !found[2] ? min : found[3] ? Number(found[3]) : Infinity;
    if (max < min) throw new UnsupportedPattern(`the repetition ${found[0]} is out of order`);
    return { min, max };
  }

  #atom(): Node {
    const unit = this.#units[this.#at++]!;
    switch (unit) {
      case "^":
        return { type: "start" };
      case "$":
        return { type: "end" };
      case ".":
        return { type: "set", ranges: complement(LINE_END) };
      case "(":
        return this.#group();
      case "[":
        return { type: "set", ranges: this.#class() };
      case "\\":
        return { type: "set", ranges: this.#escape() };
      case "*":
      case "+":
      case "?":
        throw new UnsupportedPattern(`there is nothing to repeat before ${unit}`);
      default:
        return { type: "set", ranges: [[unit.codePointAt(0)!, unit.codePointAt(0)!]] };
    }
  }

  #group(): Node {
    if (++this.#groups > MAX_GROUPS) {
      throw new UnsupportedPattern(`more than ${MAX_GROUPS} groups are nested`);
    }
    if (this.#take("?") && !this.#take(":")) {
      const name = /^<[A-Za-z_$][\w$]*>/.exec(this.#units.slice(this.#at, this.#at + 100).join(""));
      if (!name) throw new UnsupportedPattern("it has a look-around or another special group");
      this.#at += name[0].length;
    }
    const node = this.#either();
    if (!this.#take(")")) throw new UnsupportedPattern("a group is not closed");
    this.#groups--;
    return node;
  }

  #class(): CodePoints {
    const is_negated = this.#take("^"), ranges: (readonly [number, number])[] = [];
    while (!this.#take("]")) {
      const first = this.#classAtom();
      const is_range = this.#peek() === "-" && ![undefined, "]"].includes(this.#units[this.#at + 1]);
      if (!is_range) {
        ranges.push(...first);
        continue;
      }
      this.#at++;
      const last = this.#classAtom(), [from, to] = [single(first), single(last)];
      // As ECMAScript without the u flag: a class such as \w beside a hyphen makes no range.
      if (from === null || to === null) ranges.push(...first, [0x2d, 0x2d], ...last);
      else if (from > to) throw new UnsupportedPattern("a range of characters is out of order");
      else ranges.push([from, to]);
    }
    return is_negated ? complement(ranges) : normalizeRanges(ranges);
  }

  #classAtom(): CodePoints {
    const unit = this.#units[this.#at++];
    if (unit === undefined) throw new UnsupportedPattern("a class of characters is not closed");
    if (unit !== "\\") return [[unit.codePointAt(0)!, unit.codePointAt(0)!]];
    if (this.#take("b")) return [[8, 8]];
    return this.#escape();
  }

  #escape(): CodePoints {
    const unit = this.#units[this.#at++];
    if (unit === undefined) throw new UnsupportedPattern("it ends with a backslash");
    if (Object.hasOwn(CLASSES, unit)) return CLASSES[unit]!;
    const followed = this.#units.slice(this.#at, this.#at + 12).join("");
    if (unit === "0" && /^\d/.test(followed)) throw new UnsupportedPattern("it has an octal escape");
    if (Object.hasOwn(CONTROLS, unit)) return [[CONTROLS[unit]!, CONTROLS[unit]!]];
    const hex = unit === "x"
      ? /^([0-9A-Fa-f]{2})/.exec(followed)
      : unit === "u"
      ? /^([0-9A-Fa-f]{4})/.exec(followed) ?? /^\{([0-9A-Fa-f]{1,6})\}/.exec(followed)
      : null;
    if (hex) {
      this.#at += hex[0].length;
      const point = parseInt(hex[1]!, 16);
      if (point > MAX_CODE_POINT || (point >= 0xd800 && point < 0xe000)) {
        throw new UnsupportedPattern(`\\u${hex[1]} is no character`);
      }
      return [[point, point]];
    }
    if (/[A-Za-z0-9]/.test(unit)) throw new UnsupportedPattern(`the escape \\${unit} is not supported`);
    return [[unit.codePointAt(0)!, unit.codePointAt(0)!]];
  }
}

/** The only code point, or null. */
function single(ranges: CodePoints): number | null {
  return ranges.length === 1 && ranges[0]![0] === ranges[0]![1] ? ranges[0]![0] : null;
}
