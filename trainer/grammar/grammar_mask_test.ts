import { deepEqual, equal, ok, throws } from "node:assert/strict";
import { Rng, rngKey } from "../../core/random.ts";
import { maskBench } from "../../tests/schema_validator.ts";
import { compileSchema, type Grammar } from "./grammar.ts";
import { GrammarMask } from "./grammar_mask.ts";
import { Grammars } from "./grammars.ts";
import { MaskTable } from "./mask_table.ts";
import { type MatchState, Stack } from "./matcher.ts";
import { RegexArena } from "./regex.ts";
import { type TokenBytes, TokenTrie } from "./token_trie.ts";

/** A vocabulary of texts; the first is a control token. */
function vocabularyOf(texts: readonly string[]): TokenBytes {
  const bytes = texts.map((text) => new TextEncoder().encode(text));
  return { size: texts.length, bytesOf: (id) => bytes[id]!, isControl: (id) => id === 0 };
}

/** Every byte that occurs, pieces of the texts, some of them long, and two tokens of the same bytes. */
function pieces(texts: readonly string[], rng: Rng): string[] {
  const all = texts.join(""), found = new Set(all);
  while (found.size < 1500) {
    const start = rng.below(all.length), length = rng.below(20) === 0 ? 33 + rng.below(20) : 1 + rng.below(9);
    found.add(all.slice(start, start + length));
  }
  return ["<end>", ...found, '"', "x".repeat(40), ""].filter((text) => text.isWellFormed());
}

/** The allowed tokens by trying each of them alone. */
function tried(stack: Stack, state: MatchState, tokens: TokenBytes): number[] {
  const allowed: number[] = [];
  for (let id = 1; id < tokens.size; id++) {
    let after = state;
    const bytes = tokens.bytesOf(id);
    for (const byte of bytes) after = stack.next(after, byte);
    if (bytes.length > 0 && (after.threads.length > 0 || after.is_end)) allowed.push(id);
  }
  return allowed;
}

const idsOf = (bits: Uint32Array, size: number) =>
  Array.from({ length: size }, (_, id) => id).filter((id) => bits[id >>> 5]! >>> (id & 31) & 1);

Deno.test("a mask allows the tokens that can be appended, tried one by one", async () => {
  const rng = new Rng(rngKey(2, "masks")), suite = (await maskBench()).filter((_, i) => i % 25 === 3);
  const texts = suite.flatMap(({ valid }) => valid.map((value) => JSON.stringify(value)));
  const tokens = vocabularyOf(pieces(texts, rng)), arena = new RegexArena();
  const table = new MaskTable(new TokenTrie(tokens), arena);
  let positions = 0;
  for (const { name, schema, valid } of suite) {
    const grammar = compileSchema(JSON.stringify(schema), arena), text = JSON.stringify(valid[0]);
    const mask = new GrammarMask(grammar, table, Math.ceil(tokens.size / 32)), stack = new Stack(arena);
    let state = stack.begin(grammar.symbols);
    for (let step = 0; step < 25; step++) {
      const bits = mask.bits().slice(), expected = tried(stack, state, tokens);
      const found = idsOf(bits, tokens.size);
      // Near the bounds of a string, long tokens are left out.
      const is_long = (id: number) => tokens.bytesOf(id).length > 32;
      deepEqual(found.filter((id) => !is_long(id)), expected.filter((id) => !is_long(id)), `${name} ${text}`);
      ok(found.every((id) => expected.includes(id)));
      if (found.length === 0) break;
      const id = found[rng.below(found.length)]!;
      mask.advance(id);
      for (const byte of tokens.bytesOf(id)) state = stack.next(state, byte);
      positions++;
    }
  }
  ok(positions > 100, `${positions}`);
});

Deno.test("tokens of equal bytes are allowed together, those of control and without bytes never", () => {
  const tokens = vocabularyOf(["1", "1", "", "12", "1", "2"]), arena = new RegexArena();
  const table = new MaskTable(new TokenTrie(tokens), arena);
  const mask = new GrammarMask(compileSchema('{"enum":[1,12]}', arena), table, 1);
  deepEqual(idsOf(mask.bits(), 6), [1, 3, 4]);
  mask.advance(4);
  equal(mask.state.is_end, true);
  deepEqual(idsOf(mask.bits(), 6), [5]);
  throws(() => mask.advance(3), /Cannot go on after token 3/);
});

Deno.test("a long token fits a string that is long enough, and is left out near its end", () => {
  const long = "x".repeat(40), tokens = vocabularyOf(["<end>", '"', "x", long, `${long}"`]);
  const allowed = (schema: unknown, prefix: number) => {
    const grammars = new Grammars(() => tokens), mask = grammars.mask(JSON.stringify(schema), 1);
    mask.advance(1);
    for (let i = 0; i < prefix; i++) mask.advance(2);
    return idsOf(mask.bits(), 5);
  };
  deepEqual(allowed({ type: "string" }, 0), [1, 2, 3, 4]);
  deepEqual(allowed({ type: "string", maxLength: 60 }, 0), [1, 2, 3, 4]);
  deepEqual(allowed({ type: "string", maxLength: 60 }, 25), [1, 2]);
  deepEqual(allowed({ type: "string", maxLength: 60 }, 59), [1, 2]);
  deepEqual(allowed({ type: "string", maxLength: 60 }, 60), [1]);
});

Deno.test("a schema of too many alternatives that a text cannot tell apart fails while it is followed", () => {
  const arena = new RegexArena(),
    properties = Object.fromEntries(
      Array.from({ length: 5000 }, (_, i) => [`p${i}`, {}]),
    );
  const grammar: Grammar = compileSchema(JSON.stringify({ type: "object", properties }), arena);
  const stack = new Stack(arena);
  throws(() => stack.next(stack.begin(grammar.symbols), 0x7b), /more than 4096 alternatives match the text/);
});

Deno.test("a vocabulary is read once, with the first mask, and a schema compiled once", () => {
  let reads = 0;
  const grammars = new Grammars(() => {
    reads++;
    return vocabularyOf(["<end>", "1", "2"]);
  });
  equal(reads, 0);
  const one = grammars.mask('{"enum":[12]}', 1), two = grammars.mask('{"enum":[12]}', 1);
  one.advance(1);
  deepEqual([idsOf(one.bits(), 3), idsOf(two.bits(), 3)], [[2], [1]], "each mask has a text of its own");
  throws(() => grammars.mask("[]", 1), /a schema must be an object/);
  for (let i = 0; i < 40; i++) grammars.mask(`{"minLength":${i}}`, 1);
  deepEqual(idsOf(grammars.mask('{"enum":[12]}', 1).bits(), 3), [1]);
  equal(reads, 1);
});
