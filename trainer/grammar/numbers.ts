/** JSON numbers between bounds, as expressions over bytes. */

import { byteSet } from "./byte_set.ts";
import type { Regex, RegexArena } from "./regex.ts";

/** Digits before the point: 10^15 is exact as a double, and so are the comparisons of what is shorter. */
export const MAX_DIGITS = 15;
/** Digits of an integer without bounds: those of 64 bits. */
const MAX_FREE_DIGITS = 19;

/** Conditions on a number; an infinite bound is no bound. */
export interface NumberRules {
  is_integer: boolean;
  min: number;
  max: number;
  /** Whether the bounds themselves are excluded. */
  excludes_min: boolean;
  excludes_max: boolean;
  /** Every one divides the number. */
  divisors: readonly number[];
}

/** Thrown for bounds that no expression of ours can have. */
export class UnsupportedNumber extends Error {}

const digit = (arena: RegexArena, first = 0, last = 9) => arena.bytes(byteSet([0x30 + first, 0x30 + last]));

/** The texts of the numbers that satisfy the rules; `none` when there is no such number. */
export function numberRegex(arena: RegexArena, rules: NumberRules): Regex {
  const { min, max, excludes_min, excludes_max } = rules;
  if (min > max || (min === max && (excludes_min || excludes_max))) return arena.none;
  const is_bounded = rules.min !== -Infinity || rules.max !== Infinity;
  if (!is_bounded && rules.divisors.length === 0) {
    return arena.once(`number ${rules.is_integer}`, () => freeNumber(arena, rules.is_integer));
  }
  if (!is_bounded || rules.is_integer) return boundedInteger(arena, rules);
  const below = mirrored(rules);
  return arena.either(
    magnitudes(arena, rules),
    arena.concat(arena.text("-"), magnitudes(arena, below)),
  );
}

/** Finite in a double: exponents have at most two digits. */
function freeNumber(arena: RegexArena, is_integer: boolean): Regex {
  const minus = arena.optional(arena.text("-")), any = digit(arena);
  const whole = arena.either(
    arena.text("0"),
    arena.concat(digit(arena, 1), arena.repeat(any, 0, MAX_FREE_DIGITS - 1)),
  );
  if (is_integer) return arena.concat(minus, whole);
  const fraction = arena.concat(arena.text("."), arena.repeat(any, 1, MAX_FREE_DIGITS));
  const sign = arena.optional(arena.bytes(byteSet([0x2b, 0x2b], [0x2d, 0x2d])));
  const exponent = arena.concat(
    arena.bytes(byteSet([0x45, 0x45], [0x65, 0x65])),
    sign,
    arena.repeat(any, 1, 2),
  );
  return arena.concat(minus, whole, arena.optional(fraction), arena.optional(exponent));
}

/** The rules for −x. */
function mirrored(rules: NumberRules): NumberRules {
  const { min, max, excludes_min, excludes_max } = rules;
  return { ...rules, min: -max, max: -min, excludes_min: excludes_max, excludes_max: excludes_min };
}

function boundedInteger(arena: RegexArena, rules: NumberRules): Regex {
  const low = integerBound(rules), high = -integerBound(mirrored(rules));
  const positive = digitsBetween(arena, Math.max(low, 0), high);
  const negative = digitsBetween(arena, Math.max(-high, 1), -low);
  const all = arena.either(positive, arena.concat(arena.text("-"), negative));
  if (rules.divisors.length === 0) return all;
  const minus = arena.optional(arena.text("-"));
  return arena.both(all, ...rules.divisors.map((k) => arena.concat(minus, arena.multiple(k))));
}

/** The least integer that the lower bound allows. */
function integerBound({ min, excludes_min }: NumberRules): number {
  if (min === -Infinity) return -Infinity;
  const least = Math.ceil(min);
  const bound = excludes_min && least === min ? least + 1 : least;
  if (Math.abs(bound) < 10 ** MAX_DIGITS) return bound;
  // A bound beyond all the digits that are written excludes everything or nothing.
  return bound < 0 ? -Infinity : Infinity;
}

/** Integers from `low` (at least 0) to `high`, of at most MAX_DIGITS digits, without leading zeros. */
function digitsBetween(arena: RegexArena, low: number, high: number): Regex {
  const last = Math.min(high, 10 ** MAX_DIGITS - 1), parts: Regex[] = [];
  for (let from = low; from <= last;) {
    const length = String(from).length, to = Math.min(last, 10 ** length - 1);
    parts.push(sameLength(arena, String(from), String(to)));
    from = to + 1;
  }
  return arena.either(...parts);
}

/** Texts of digits between two of one length. */
function sameLength(arena: RegexArena, low: string, high: string): Regex {
  if (low === "") return arena.empty;
  const [a, b] = [Number(low[0]), Number(high[0])], rest = low.length - 1;
  if (/^0*$/.test(low) && /^9*$/.test(high)) return arena.repeat(digit(arena), rest + 1, rest + 1);
  if (a === b) return arena.concat(digit(arena, a, a), sameLength(arena, low.slice(1), high.slice(1)));
  const any = arena.repeat(digit(arena), rest, rest);
  return arena.either(
    arena.concat(digit(arena, a, a), sameLength(arena, low.slice(1), "9".repeat(rest))),
    b - a > 1 ? arena.concat(digit(arena, a + 1, b - 1), any) : arena.none,
    arena.concat(digit(arena, b, b), sameLength(arena, "0".repeat(rest), high.slice(1))),
  );
}

/** Decimal numbers from 0 between the bounds, without exponents. */
function magnitudes(arena: RegexArena, rules: NumberRules): Regex {
  if (rules.max < 0) return arena.none;
  const floor = rules.min >= 0 ? decimal(rules.min) : null;
  const roof = rules.max < 10 ** MAX_DIGITS ? decimal(rules.max) : null;
  const width = Math.max(floor?.whole.length ?? 0, roof?.whole.length ?? 0, 1);
  const places = Math.max(MAX_DIGITS - width, floor?.fraction.length ?? 0, roof?.fraction.length ?? 0);
  const parts: Regex[] = [];
  const below = (end: number, start: number) => digitsBetween(arena, start, end);
  const any = fractionText(arena, places);
  const first = floor ? Number(floor.whole) : 0, last = roof ? Number(roof.whole) : Infinity;
  if (floor && roof && first === last) {
    const above = fractionFrom(arena, floor.fraction, { is_strict: rules.excludes_min, places });
    const under = fractionTo(arena, roof.fraction, { is_strict: rules.excludes_max, places });
    return arena.concat(arena.text(floor.whole), arena.both(above, under));
  }
  if (floor) {
    const above = fractionFrom(arena, floor.fraction, { is_strict: rules.excludes_min, places });
    parts.push(arena.concat(arena.text(floor.whole), above));
  }
  parts.push(arena.concat(below(last - 1, floor ? first + 1 : 0), any));
  if (roof) {
    const under = fractionTo(arena, roof.fraction, { is_strict: rules.excludes_max, places });
    parts.push(arena.concat(arena.text(roof.whole), under));
  }
  return arena.either(...parts);
}

/** The digits before and after the point of a number from 0. @throws {UnsupportedNumber} */
function decimal(value: number): { whole: string; fraction: string } {
  const text = String(value);
  const small = /^(\d)(?:\.(\d+))?e-(\d+)$/.exec(text);
  const plain = small ? `0.${"0".repeat(Number(small[3]) - 1)}${small[1]}${small[2] ?? ""}` : text;
  const [whole, fraction = ""] = plain.split(".") as [string, string?];
  if (!/^\d+$/.test(whole) || whole.length + fraction.length > MAX_DIGITS + 1) {
    throw new UnsupportedNumber(`the bound ${value} has more than ${MAX_DIGITS} digits`);
  }
  return { whole, fraction };
}

/** Nothing, or a point and up to `places` digits. */
function fractionText(arena: RegexArena, places: number): Regex {
  if (places === 0) return arena.empty;
  return arena.optional(arena.concat(arena.text("."), arena.repeat(digit(arena), 1, places)));
}

interface FractionRule {
  is_strict: boolean;
  places: number;
}

/** Fractions (with their point) from one on; without the bound itself when strict. */
function fractionFrom(arena: RegexArena, bound: string, { is_strict, places }: FractionRule): Regex {
  const digits = arena.concat(arena.text("."), digitsFrom(arena, bound, { is_strict, places }));
  const has_zero = /^0*$/.test(bound) && !is_strict;
  return has_zero ? arena.optional(digits) : digits;
}

/** Digits, at least one, that as a fraction are at least `0.bound`. */
function digitsFrom(arena: RegexArena, bound: string, rule: FractionRule): Regex {
  const any = digit(arena), { is_strict, places } = rule;
  if (bound === "") {
    // From 0 on: everything, or at least one digit that is not 0.
    const all = arena.repeat(any, 1, places);
    if (!is_strict) return all;
    const zeros = arena.repeat(digit(arena, 0, 0), 1, places);
    return arena.both(all, arena.not(zeros));
  }
  const first = Number(bound[0]), rest = bound.slice(1), more = arena.repeat(any, 0, Math.max(places - 1, 0));
  const higher = first < 9 ? arena.concat(digit(arena, first + 1, 9), more) : arena.none;
  const tail = digitsFrom(arena, rest, { is_strict, places: places - 1 });
  const may_end = /^0*$/.test(rest) && !is_strict;
  return arena.either(
    higher,
    arena.concat(digit(arena, first, first), may_end ? arena.optional(tail) : tail),
  );
}

/** Fractions (with their point) up to one; without the bound itself when strict. */
function fractionTo(arena: RegexArena, bound: string, { is_strict, places }: FractionRule): Regex {
  const digits = arena.concat(arena.text("."), digitsTo(arena, bound, { is_strict, places }));
  const has_zero = !(is_strict && /^0*$/.test(bound));
  return has_zero ? arena.optional(digits) : arena.none;
}

/** Digits, at least one, that as a fraction are at most `0.bound`. */
function digitsTo(arena: RegexArena, bound: string, rule: FractionRule): Regex {
  const { is_strict, places } = rule;
  if (bound === "") {
    return is_strict ? arena.none : arena.repeat(digit(arena, 0, 0), 1, places);
  }
  const first = Number(bound[0]), rest = bound.slice(1);
  const more = arena.repeat(digit(arena), 0, Math.max(places - 1, 0));
  const lower = first > 0 ? arena.concat(digit(arena, 0, first - 1), more) : arena.none;
  const tail = digitsTo(arena, rest, { is_strict, places: places - 1 });
  const may_end = !(is_strict && /^0*$/.test(rest));
  return arena.either(
    lower,
    arena.concat(digit(arena, first, first), may_end ? arena.optional(tail) : tail),
  );
}
