import { equal, ok } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { validatorOf } from "../../tests/schema_validator.ts";
import { compileSchema, type Grammar } from "./grammar.ts";
import { type MatchState, Stack } from "./matcher.ts";
import { RegexArena } from "./regex.ts";
import { towardsEnd } from "./schema_walk_testing.ts";

const SCHEMAS = 200, TEXTS = 4, FREE_BYTES = 60;
const NAMES = ["a", "b", "c", "ab"], PATTERNS = ["^a", "b$", "^[ab]+$", "^.{1,2}$", "c"];
const TYPES = ["string", "number", "integer", "object", "array", "boolean", "null"];
const VALUES = [null, true, 0, 1, 2.5, -3, 10, "", "a", "ab", "1"];

/** A random schema of most keywords; many of them contradict each other. */
function randomSchema(rng: Rng, depth: number): Record<string, unknown> {
  const below = (n: number) => rng.below(n), one = <T>(list: readonly T[]) => list[below(list.length)]!;
  const some = <T>(list: readonly T[]) => list.filter(() => below(3) === 0);
  const sub = () => depth === 0 || below(12) === 0 ? below(2) === 0 : randomSchema(rng, depth - 1);
  const list = () => Array.from({ length: 1 + below(3) }, sub);
  const table = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, sub()]));
  const makers: Record<string, [chance: number, make: () => unknown]> = {
    type: [0.7, () => below(4) === 0 ? [one(TYPES.slice(0, 3)), one(TYPES.slice(3))] : one(TYPES)],
    enum: [0.08, () => [one(VALUES), one(VALUES), one(VALUES)]],
    const: [0.04, () => one(VALUES)],
    minimum: [0.12, () => below(8) - 3],
    maximum: [0.12, () => below(12) - 0.75],
    exclusiveMinimum: [0.06, () => below(5) - 2],
    exclusiveMaximum: [0.06, () => below(9)],
    multipleOf: [0.06, () => 1 + below(4)],
    minLength: [0.1, () => below(4)],
    maxLength: [0.1, () => below(5)],
    pattern: [0.1, () => one(PATTERNS)],
    format: [0.05, () => one(["date", "email", "ipv4", "uri", "time", "int32"])],
    properties: [0.4, () => table(some(NAMES))],
    required: [0.25, () => some(NAMES)],
    additionalProperties: [0.2, sub],
    patternProperties: [0.1, () => table([one(PATTERNS)])],
    propertyNames: [0.05, () => ({ maxLength: 1 })],
    minProperties: [0.08, () => below(4)],
    maxProperties: [0.08, () => below(4)],
    dependentRequired: [0.08, () => ({ [one(NAMES)]: [one(NAMES)] })],
    items: [0.25, sub],
    prefixItems: [0.12, list],
    minItems: [0.12, () => below(4)],
    maxItems: [0.12, () => below(4)],
    uniqueItems: [0.05, () => true],
    anyOf: [0.1, list],
    oneOf: [0.1, list],
    allOf: [0.1, list],
    not: [0.06, () => one([{ type: "string" }, { required: ["a"] }, { const: 1 }, sub()])],
    $ref: [0.05, () => "#/$defs/d"],
  };
  return Object.fromEntries(
    Object.entries(makers).filter(([, [chance]]) => rng.uniform() < chance).map((
      [key, [, make]],
    ) => [key, make()]),
  );
}

/** A text of random bytes that match, ended on the shortest way. */
function randomText({ arena, symbols }: Grammar, rng: Rng): string {
  const stack = new Stack(arena), bytes: number[] = [];
  let state: MatchState = stack.begin(symbols);
  const may = (byte: number) => {
    const { threads, is_end } = stack.next(state, byte);
    return threads.length > 0 || is_end;
  };
  while (bytes.length < 5000) {
    if (state.is_end && (bytes.length > FREE_BYTES || state.threads.length === 0 || rng.below(3) === 0)) {
      break;
    }
    const matching = Array.from({ length: 95 }, (_, i) => 0x20 + i).filter(may);
    const marks = matching.filter((byte) => '"{}[]:,'.includes(String.fromCharCode(byte)));
    const from = marks.length > 0 && rng.below(2) === 0 ? marks : matching;
    const byte = bytes.length < FREE_BYTES ? from[rng.below(from.length)] : towardsEnd(arena, state);
    ok(byte !== undefined && may(byte), "every beginning can go on or end");
    bytes.push(byte);
    state = stack.next(state, byte);
  }
  ok(state.is_end);
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(bytes));
}

Deno.test("texts of random schemas satisfy them, or the schema is refused", () => {
  let enforced = 0;
  for (let seed = 0; seed < SCHEMAS; seed++) {
    const rng = new Rng(rngKey(seed, "schemas"));
    const $schema = "https://json-schema.org/draft/2020-12/schema";
    const schema = { ...randomSchema(rng, 3), $schema, $defs: { d: randomSchema(rng, 1) } };
    const text = JSON.stringify(schema), validate = validatorOf(schema);
    if (!validate) continue;
    let grammar: Grammar;
    try {
      grammar = compileSchema(text, new RegexArena());
    } catch (error) {
      ok(error instanceof ServiceError && error.code === "config_invalid", text);
      continue;
    }
    enforced++;
    for (let i = 0; i < TEXTS; i++) {
      const drawn = randomText(grammar, rng);
      equal(validate(JSON.parse(drawn)), true, `seed ${seed}: ${drawn} under ${text}`);
    }
  }
  ok(enforced > SCHEMAS / 2, `${enforced}`);
});
