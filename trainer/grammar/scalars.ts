/** The values of a node that are written without containers: literals, numbers, strings, given values. */

import { canonical, type Facts, type TypeName } from "./facts.ts";
import { anyCharacter, anyWritten, quoted, writtenValue } from "./json_text.ts";
import { schemaError } from "./limits.ts";
import { numberRegex, UnsupportedNumber } from "./numbers.ts";
import { patternText, UnsupportedPattern } from "./pattern.ts";
import type { Regex, RegexArena } from "./regex.ts";
import type { NodeContext } from "./schema_node.ts";

/** The texts of all scalars that the facts allow; null when there are none. */
export function textAlternative(context: NodeContext, types: ReadonlySet<TypeName>): Regex | null {
  const { resolver: { arena }, facts } = context;
  const parts: Regex[] = [];
  if (facts.values) {
    const values = context.node.values = allowedValues(context, types);
    parts.push(...values.map((value) => writtenValue(arena, value)));
  } else {
    const excluded = new Set(facts.excluded.map(canonical));
    const literals = [["null", ["null"]], ["boolean", ["true", "false"]]] as const;
    for (const [type, texts] of literals) {
      if (types.has(type)) {
        parts.push(...texts.filter((text) => !excluded.has(text)).map((text) => arena.text(text)));
      }
    }
    if (types.has("number")) parts.push(numbers(context));
    if (types.has("string")) parts.push(strings(context));
  }
  const text = arena.either(...parts);
  return text === arena.none ? null : text;
}

function typeOf(value: unknown): TypeName {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value as TypeName;
}

/** The given values that satisfy the other facts. */
function allowedValues(context: NodeContext, types: ReadonlySet<TypeName>): unknown[] {
  const { facts, resolver } = context;
  const excluded = new Set(facts.excluded.map(canonical)), { number } = facts;
  const string = types.has("string") && hasStringRules(facts) ? strings(context) : null;
  return facts.values!.filter((value) => {
    const type = typeOf(value);
    if (!types.has(type) || excluded.has(canonical(value))) return false;
    facts.expectEnforced(type);
    if (typeof value === "number") {
      const { min, max, excludes_min, excludes_max } = number;
      return (!number.is_integer || Number.isInteger(value)) && (excludes_min ? value > min : value >= min) &&
        (excludes_max ? value < max : value <= max) && number.divisors.every((divisor) =>
          value % divisor === 0
        );
    }
    if (typeof value === "string") return !string || matches(resolver.arena, string, JSON.stringify(value));
    const places = type === "array" ? facts.array_places : type === "object" ? facts.object_places : [];
    if (places.length > 0) {
      const reason = `given values of type ${type} cannot be combined with other keywords for ${type}s`;
      throw schemaError(places[0]!.pointer, null, reason);
    }
    return true;
  });
}

/** Whether a text matches. */
export function matches(arena: RegexArena, regex: Regex, text: string): boolean {
  let state = regex;
  for (const byte of new TextEncoder().encode(text)) state = arena.next(state, byte);
  return state.is_nullable;
}

function numbers({ facts, resolver: { arena }, node }: NodeContext): Regex {
  facts.expectEnforced("number");
  const excluded = facts.excluded.filter((value) => typeof value === "number");
  const { number } = facts;
  try {
    if (excluded.length > 0 && !number.is_integer) {
      throw new UnsupportedNumber("numbers are excluded from integers only");
    }
    const text = numberRegex(arena, number);
    const is_free = number.min === -Infinity && number.max === Infinity && number.divisors.length === 0;
    if (is_free && excluded.length === 0) return text;
    const others = excluded.flatMap((value) => value === 0 ? ["0", "-0"] : [String(value)]);
    return arena.explore(arena.both(text, ...others.map((other) => arena.not(arena.text(other)))));
  } catch (error) {
    if (!(error instanceof UnsupportedNumber)) throw error;
    throw schemaError(node.places[0]?.pointer ?? "", null, error.message);
  }
}

function hasStringRules({ patterns, length }: Facts): boolean {
  return patterns.length > 0 || length.min > 0 || length.max < Infinity;
}

/** Strings in their quotes. With patterns, and as names, they are written as `JSON.stringify` does. */
function strings({ facts, resolver: { arena }, node }: NodeContext): Regex {
  facts.expectEnforced("string");
  const { patterns, length, values } = facts;
  const excluded = facts.excluded.filter((value) => typeof value === "string");
  const is_written = patterns.length > 0 || excluded.length > 0 || node.is_key || values !== null;
  const character = is_written ? anyWritten(arena) : anyCharacter(arena);
  const by_length = arena.repeat(character, length.min, length.max);
  if (patterns.length === 0 && excluded.length === 0) return quoted(arena, by_length);
  const rules = patterns.map(({ place, keyword, pattern }) => {
    try {
      return patternText(arena, pattern);
    } catch (error) {
      if (!(error instanceof UnsupportedPattern)) throw error;
      throw schemaError(place.pointer, keyword, error.message);
    }
  });
  const has_length = length.min > 0 || length.max < Infinity || rules.length === 0;
  const others = excluded.map((value) => arena.not(arena.text(JSON.stringify(value).slice(1, -1))));
  return arena.explore(quoted(arena, arena.both(...rules, ...(has_length ? [by_length] : []), ...others)));
}
