import { equal, throws } from "node:assert/strict";
import { numberRegex, type NumberRules, UnsupportedNumber } from "./numbers.ts";
import { RegexArena } from "./regex.ts";
import { matches } from "./scalars.ts";

const FREE: NumberRules = {
  ...{ is_integer: false, min: -Infinity, max: Infinity, excludes_min: false, excludes_max: false },
  divisors: [],
};

/** Integers and decimals around zero in every plain spelling, and spellings that JSON forbids. */
function* spellings(): Generator<string, void> {
  for (const sign of ["", "-"]) {
    for (let whole = 0; whole <= 130; whole++) {
      yield `${sign}${whole}`;
      for (const fraction of ["0", "00", "1", "25", "49", "5", "50", "51", "75", "99", "999", "005"]) {
        if (whole < 14) yield `${sign}${whole}.${fraction}`;
      }
    }
  }
}

const RULES: Partial<NumberRules>[] = [
  {},
  { min: 0 },
  { max: 0 },
  { min: 0, excludes_min: true },
  { max: 0, excludes_max: true },
  { min: 3, max: 117 },
  { min: -12, max: 5 },
  { min: -1.5, max: 0.25 },
  { min: 0.5, max: 0.75 },
  { min: 0.5, max: 0.75, excludes_min: true, excludes_max: true },
  { min: 2.25, max: 12.5, excludes_max: true },
  { min: -12.5, max: -2.25, excludes_min: true },
  { min: 7, max: 7 },
  { min: 7, max: 7, excludes_max: true },
  { min: 8, max: 7 },
  { min: 0.005, max: 1, excludes_max: true },
  { min: 9.99 },
];

Deno.test("numbers between bounds are the spellings whose value lies between them", () => {
  for (const rule of RULES) {
    for (const divisors of [[], [3], [4, 6]]) {
      for (const is_integer of divisors.length > 0 ? [true] : [true, false]) {
        const rules = { ...FREE, ...rule, divisors, is_integer }, arena = new RegexArena();
        const text = arena.explore(numberRegex(arena, rules));
        const is_bounded = rules.min !== -Infinity || rules.max !== Infinity || divisors.length > 0;
        for (const spelling of spellings()) {
          const x = Number(spelling);
          const is_within = (rules.excludes_min ? x > rules.min : x >= rules.min) &&
            (rules.excludes_max ? x < rules.max : x <= rules.max);
          const is_whole = !spelling.includes(".");
          const expected = is_within && (is_whole || !is_integer) && divisors.every((k) => x % k === 0);
          // Bounded integers are not written as -0.
          if (is_integer && is_bounded && spelling === "-0") continue;
          equal(matches(arena, text, spelling), expected, `${spelling} under ${JSON.stringify(rules)}`);
        }
        for (const wrong of ["", "-", "+1", "01", "-01", "1.", ".5", "1e", "1 ", "0x1", "NaN", "1e400"]) {
          equal(matches(arena, text, wrong), false, wrong);
        }
      }
    }
  }
});

Deno.test("numbers without bounds have exponents and are finite, and large bounds are those of doubles", () => {
  const arena = new RegexArena(), free = numberRegex(arena, FREE);
  for (const text of ["1e5", "-1.5E-12", "0e+9", "1234567890123456789"]) {
    equal(matches(arena, free, text), true, text);
  }
  equal(matches(arena, free, "1".repeat(20)), false);
  const large = arena.explore(
    numberRegex(arena, { ...FREE, is_integer: true, min: -(2 ** 63), max: 2 ** 63 }),
  );
  equal(matches(arena, large, "-" + "9".repeat(15)), true);
  const nothing = numberRegex(arena, { ...FREE, is_integer: true, min: 1e20 });
  equal(nothing, arena.none);
  throws(() => numberRegex(arena, { ...FREE, min: 0.12345678901234567 }), UnsupportedNumber);
});
