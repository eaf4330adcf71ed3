/**
 * Which regular expressions of others may run on texts of others. JavaScript's engine tries all ways to match, and nothing
 * can stop it: an unlucky pattern with an unlucky text takes longer than a run.
 */

/** The most characters of a pattern. */
export const MAX_PATTERN_CHARS = 1000;

/** The most unbounded repetitions that may compete for the same characters; the time is a power of the text's length. */
export const MAX_COMPETING_REPETITIONS = 2;

/** A repetition with at least this many more than its least counts as unbounded. */
const UNBOUNDED = 20;

/** Characters by which sets are compared, besides those of the pattern itself. */
const SAMPLE = [
  ...Array.from({ length: 0x180 }, (_, code) => String.fromCharCode(code)),
  ..."αЖא字あ€\u2028\ufffd😀",
];

/** For every character of a sample, whether it is in the set; false where the list is shorter. */
type Chars = readonly boolean[];

type Item = { min: number; max: number } & ({ chars: Chars } | { group: Item[][] });

/**
 * Why a pattern is refused; null when the time for a match is at most quadratic in the length of the text. Refuses some
 * patterns that would be harmless.
 */
export function patternRefusal(pattern: string): string | null {
  if (pattern.length > MAX_PATTERN_CHARS) return `it has more than ${MAX_PATTERN_CHARS} characters`;
  try {
    new RegExp(pattern, "u");
  } catch {
    return "it is no regular expression";
  }
  const parser = new PatternParser(pattern);
  const alternatives = parser.alternatives();
  if (parser.refusal !== null) return parser.refusal;
  if (!alternatives.every(isUnambiguous)) {
    return "a repeated group can match one text in several ways, which may take for ever";
  }
  const start = pattern.startsWith("^") && alternatives.length === 1
    ? []
    : [{ chars: parser.any, length: 1 }];
  if (longestRun(alternatives, start).longest > MAX_COMPETING_REPETITIONS) {
    return "too many repetitions in it can match the same characters; begin it with ^, or put other characters between them";
  }
  return null;
}

const NONE: Chars = [];
const union = (a: Chars, b: Chars): Chars =>
  (a.length < b.length ? b : a).map((_, i) => a[i] || b[i] || false);
const meet = (a: Chars, b: Chars) => a.some((has, i) => has && b[i]);

/** Two ranges that overlap share an end of one of them, so a pattern's own characters show it. */
function sampleOf(pattern: string): string[] {
  const escaped = [...pattern.matchAll(/\\u\{?([\da-fA-F]{1,6})/g)].map(([, code]) => parseInt(code!, 16));
  const chars = escaped.filter((code) => code <= 0x10ffff).map((code) => String.fromCodePoint(code));
  return [...new Set([...SAMPLE, ...pattern, ...chars])];
}

/** Parses a pattern that `RegExp` accepts with the flag u. Zero-width assertions are left out. */
class PatternParser {
  #at = 0;
  readonly #sample: string[];
  readonly any: Chars;
  refusal: string | null = null;

  constructor(readonly pattern: string) {
    this.#sample = sampleOf(pattern);
    this.any = this.#sample.map(() => true);
  }

  alternatives(): Item[][] {
    const all: Item[][] = [[]];
    while (this.#at < this.pattern.length && !this.#sees(")")) {
      if (this.#takes("|")) all.push([]);
      else all.at(-1)!.push(...this.#item());
    }
    return all;
  }

  #sees(text: string): boolean {
    return this.pattern.startsWith(text, this.#at);
  }

  #takes(text: string): boolean {
    if (!this.#sees(text)) return false;
    this.#at += text.length;
    return true;
  }

  /** The text that matches here, if any. */
  #match(form: RegExp): RegExpExecArray | null {
    form.lastIndex = this.#at;
    const found = form.exec(this.pattern);
    if (found) this.#at = form.lastIndex;
    return found;
  }

  #item(): Item[] {
    if (this.#match(/[$^]|\\[bB]/uy)) return [];
    if (this.#match(/\(\?(?:<?[=!]|[a-z-]+:)|\\(?:[1-9]|k<)/uy)) {
      this.refusal ??= "it looks around, refers back or sets flags, which is not supported";
      return [];
    }
    const atom = this.#match(/\((?:\?:|\?<[^>]*>)?/uy) ? { group: this.#group() } : { chars: this.#chars() };
    return [{ ...this.#repetition(), ...atom }];
  }

  #group(): Item[][] {
    const inner = this.alternatives();
    this.#takes(")");
    return inner;
  }

  #chars(): Chars {
    const escape = /\\(?:u\{[^}]*\}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[a-zA-Z]|[pP]\{[^}]*\}|.)/uy;
    const found = this.#match(/\[(?:\\.|[^\]\\])*\]/uy) ?? this.#match(escape) ?? this.#match(/[^]/uy)!;
    const form = new RegExp(`^${found[0]}$`, "u");
    const chars = this.#sample.map((char) => form.test(char));
    // Characters that no sample has may be any.
    return chars.includes(true) ? chars : this.any;
  }

  #repetition(): { min: number; max: number } {
    const found = this.#match(/(?:([*+?])|\{(\d+)(?:(,)(\d*))?\})\??/uy);
    if (!found) return { min: 1, max: 1 };
    const [, sign, low, comma, high] = found;
    if (sign) return { min: sign === "+" ? 1 : 0, max: sign === "?" ? 1 : Infinity };
    return { min: Number(low), max: comma === undefined ? Number(low) : high ? Number(high) : Infinity };
  }
}

/** All characters that an item can match. */
function charsOf(item: Item): Chars {
  return "chars" in item ? item.chars : item.group.flat().map(charsOf).reduce(union, NONE);
}

const isNullable = (item: Item): boolean =>
  item.min === 0 || ("group" in item && item.group.some((sequence) => sequence.every(isNullable)));

/** The characters with which a sequence can start. */
function firstOf(sequence: readonly Item[]): Chars {
  let first = NONE;
  for (const item of sequence) {
    const own = "chars" in item ? item.chars : item.group.map(firstOf).reduce(union, NONE);
    first = union(first, own);
    if (!isNullable(item)) break;
  }
  return first;
}

/** The characters of all parts of a sequence that may be longer or shorter. */
function variableChars(sequence: readonly Item[]): Chars {
  return sequence.map((item) => {
    if (item.min !== item.max) return charsOf(item);
    return "group" in item ? item.group.map(variableChars).reduce(union, NONE) : NONE;
  }).reduce(union, NONE);
}

/** Whether each group that repeats in a sequence can divide a text into its repetitions in one way only. */
function isUnambiguous(sequence: readonly Item[]): boolean {
  return sequence.every((item) => {
    if (!("group" in item)) return true;
    return item.group.every(isUnambiguous) && (item.max <= 1 || hasOneDivision(item.group));
  });
}

function hasOneDivision(alternatives: readonly Item[][]): boolean {
  if (alternatives.some((sequence) => sequence.every(isNullable))) return false;
  const firsts = alternatives.map(firstOf);
  if (firsts.some((first, i) => firsts.some((other, j) => j < i && meet(first, other)))) return false;
  const variable = alternatives.map(variableChars).reduce(union, NONE);
  if (!firsts.some((first) => meet(first, variable))) return true;
  return alternatives.every((sequence) => {
    const last = sequence.at(-1)!;
    return "chars" in last && last.min === 1 && last.max === 1 && !meet(last.chars, variable);
  });
}

/** A repetition that the rest of a pattern can compete with, and how many compete already. */
interface Open {
  chars: Chars;
  length: number;
}

/** The longest run of competing repetitions, and those that what follows can compete with. */
function longestRun(
  alternatives: readonly Item[][],
  start: readonly Open[],
): { longest: number; open: Open[] } {
  let longest = 0;
  const open = alternatives.flatMap((sequence) => {
    let here = [...start];
    for (const item of sequence) {
      const chars = charsOf(item);
      if (item.max - item.min >= UNBOUNDED || ("group" in item && item.max >= UNBOUNDED)) {
        const rivals = here.filter((other) => meet(other.chars, chars)).map(({ length }) => length);
        const length = 1 + Math.max(0, ...rivals);
        longest = Math.max(longest, length);
        if (item.min > 0) here = here.filter((other) => meet(other.chars, chars));
        here.push({ chars, length });
      } else if ("group" in item) {
        const inner = longestRun(item.group, here);
        longest = Math.max(longest, inner.longest);
        here = item.min > 0 ? inner.open : [...here, ...inner.open];
      } else if (item.min > 0) here = here.filter((other) => meet(other.chars, chars));
    }
    return here;
  });
  return { longest, open: merged(open) };
}

/** Each set once, with its greatest length. */
function merged(open: readonly Open[]): Open[] {
  const by_chars = new Map<string, Open>();
  for (const entry of open) {
    const key = entry.chars.map(Number).join("");
    if ((by_chars.get(key)?.length ?? 0) < entry.length) by_chars.set(key, entry);
  }
  return [...by_chars.values()];
}
