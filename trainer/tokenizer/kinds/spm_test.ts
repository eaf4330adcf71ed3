import assert from "node:assert/strict";
import { readFixtureJson } from "../../../tests/fixture.ts";
import {
  assertVectors,
  bool,
  fixtureTokenizer,
  float32,
  int32,
  readVocabularyOf,
  strings,
  text,
  uint32,
} from "../../../tests/vocabulary.ts";
import type { GgufValue } from "../../formats/gguf_values.ts";
import { TOKEN_TYPES } from "../vocabulary.ts";

const llama = await fixtureTokenizer("tokenizers/ggml-vocab-llama-spm.gguf");
const stories = await fixtureTokenizer("models/stories260k.gguf");
// It has no bytes to fall back on, and pieces of several words.
const without_bytes = await fixtureTokenizer("models/tinystories-656k-llama-f16.gguf");

Deno.test("Llama's vocabulary gives llama.cpp's ids in all test vectors", async () => {
  await assertVectors(llama, "tokenizers/ggml-vocab-llama-spm.gguf");
  assert.deepEqual([llama.size, llama.bos_id, llama.end_ids, llama.adds_bos], [32000, 1, [2], true]);
});

Deno.test("prompts of other vocabularies have the golden ids", async () => {
  const goldens = await readFixtureJson("models/stories260k-goldens.json");
  const prompts = goldens["stories260k.gguf"];
  assert.equal(prompts.length, 2);
  for (const { text, prompt_ids } of prompts) {
    assert.deepEqual([stories.bos_id, ...stories.encode(text, { special: false })], prompt_ids);
    assert.equal(stories.decode(prompt_ids.slice(1), { special: false }), text);
  }
  // The file does not say whether text starts with a begin token.
  assert.equal(stories.adds_bos, true);
  const texts = await readFixtureJson("models/tinystories-656k-tokenization.json");
  assert.equal(texts.length, 5);
  for (const { text, spm_ids, hf_ids } of texts) {
    const ids = [without_bytes.bos_id, ...without_bytes.encode(text, { special: false })];
    assert.deepEqual(ids, spm_ids);
    assert.deepEqual(ids, hf_ids);
    assert.equal(without_bytes.decode(spm_ids.slice(1), { special: false }), text);
  }
});

Deno.test("a text gets its space only at a beginning and after special tokens", () => {
  const ids = (text: string, after?: number | null) => llama.encode(text, { special: true, after });
  const HELLO = 15043, HELLO_WITHOUT_SPACE = 10994, WORLD = 3186;
  assert.deepEqual(ids("Hello world"), [HELLO, WORLD]);
  assert.deepEqual(ids("Hello world", null), [HELLO, WORLD]);
  assert.deepEqual(ids("Hello", llama.bos_id), [HELLO]);
  assert.deepEqual(ids("Hello", WORLD), [HELLO_WITHOUT_SPACE]);
  assert.deepEqual([...ids("Hello"), ...ids(" world", HELLO)], ids("Hello world"));
  assert.deepEqual(ids("<s>Hello world</s>Hello"), [1, HELLO, WORLD, 2, HELLO]);
  assert.deepEqual(ids("</s>Hello", WORLD), [2, HELLO]);
  assert.deepEqual(ids(""), []);
});

Deno.test("control, unknown and byte tokens come out of plain text never, and out of special text when named", () => {
  const text = "<s><unk><0x0A></s>";
  const plain = llama.encode(text, { special: false });
  assert.ok(plain.every((id) => id > 258), "the first 259 are the unknown, begin, end and byte tokens");
  assert.equal(llama.decode(plain, { special: false }), text);
  const special = llama.encode(text, { special: true });
  assert.deepEqual([...special.slice(0, 2), special.at(-1)], [1, 0, 2]);
  assert.ok(!special.includes(13));
  assert.deepEqual([llama.isControl(0), llama.isControl(1), llama.isControl(13)], [true, true, false]);
});

Deno.test("a control token does not come out of merges either", async () => {
  const vocabulary = vocabularyOf({ "<": -9, s: -9, ">": -9, "<s": -1 });
  const tokenizer = await readVocabularyOf(vocabulary);
  assert.deepEqual(tokenizer.encode("<s>", { special: false }), [6, 5]);
  assert.deepEqual(tokenizer.encode("<s>", { special: true }), [1]);
});

Deno.test("the first token alone loses its space, as in llama.cpp", () => {
  const HELLO = 15043;
  assert.equal(llama.decode([HELLO, HELLO], { special: true }), "Hello Hello");
  assert.equal(llama.decode([1, HELLO], { special: true }), "<s> Hello");
  assert.equal(llama.decode([1, HELLO], { special: false }), " Hello");
  assert.equal(llama.textOf(HELLO), " Hello");
  assert.equal(llama.textOf(1), "<s>");
  assert.deepEqual(llama.bytesOf(13), Uint8Array.of(10));
});

Deno.test("a run of characters without pieces and bytes is one unknown token", () => {
  const unknown = 0;
  const ids = (text: string) => without_bytes.encode(text, { special: false });
  const known = ids("Lily");
  assert.ok(!known.includes(unknown));
  assert.deepEqual(ids("Lily日本"), [...known, unknown]);
  assert.deepEqual(ids("Lily日本Lily日").filter((id) => id === unknown), [unknown, unknown]);
});

Deno.test("long texts do not take quadratic time", () => {
  // One pass per merge over 1,000,000 characters would be about 10^11 steps.
  for (const [text, times] of [[" ", 1e6], ["a", 2e5], ["=", 2e5], ["ab ", 1e5], ["🦙", 5e4]] as const) {
    const long = text.repeat(times);
    const ids = llama.encode(long, { special: true });
    assert.equal(llama.decode(ids, { special: true }), long);
  }
});

const { unknown, control, user_defined, byte } = TOKEN_TYPES;

/** A vocabulary without bytes, from its pieces and their scores. */
function vocabularyOf(pieces: Record<string, number>): Record<string, GgufValue> {
  const texts = Object.keys(pieces);
  return {
    model: text("llama"),
    tokens: strings(["<unk>", "<s>", "</s>", ...texts]),
    token_type: int32([unknown, control, control, ...texts.map(() => TOKEN_TYPES.normal)]),
    scores: float32([0, 0, 0, ...Object.values(pieces)]),
    add_space_prefix: bool(false),
  };
}

Deno.test("the highest score merges first, the leftmost among equals", async () => {
  const split = async (pieces: Record<string, number>, written: string) => {
    const tokenizer = await readVocabularyOf(vocabularyOf(pieces));
    return tokenizer.encode(written, { special: false }).map((id) => tokenizer.textOf(id));
  };
  const letters = { a: -9, b: -9, c: -9, d: -9 };
  assert.deepEqual(await split({ ...letters, ab: -1, bc: -1 }, "abcab"), ["ab", "c", "ab"]);
  assert.deepEqual(await split({ ...letters, ab: -2, bc: -1 }, "abcab"), ["a", "bc", "ab"]);
  assert.deepEqual(await split({ ...letters, ab: -1, cd: -2, abcd: -3 }, "abcd"), ["abcd"]);
  // No merge forms it.
  assert.deepEqual(await split({ ...letters, abc: -1 }, "abc"), ["a", "b", "c"]);
  assert.deepEqual(await split({ aa: -1, a: -2, aaa: -3 }, "aaaaaaa"), ["aa", "aa", "aaa"]);
  // A character may be part of a piece without being one.
  assert.deepEqual(await split({ a: -1, "日本": -2 }, "日本a日"), ["日本", "a", "<unk>"]);
});

Deno.test("defaults are those of llama.cpp", async () => {
  const tokenizer = await readVocabularyOf(vocabularyOf({ a: 0, "▁": 0, "▁a": 0 }));
  assert.deepEqual([tokenizer.bos_id, tokenizer.eos_id, tokenizer.adds_bos], [1, 2, true]);
  assert.deepEqual(tokenizer.encode("a a", { special: false }), [3, 5]);
  assert.equal(tokenizer.decode([5, 5], { special: false }), " a a");
  const prefixed = vocabularyOf({ a: 0, "▁": 0, "▁a": 0 });
  delete prefixed.add_space_prefix;
  const with_space = await readVocabularyOf(prefixed, {
    add_bos_token: bool(false),
    bos_token_id: uint32(3),
  });
  assert.deepEqual([with_space.bos_id, with_space.adds_bos], [3, false]);
  assert.deepEqual(with_space.encode("a a", { special: false }), [5, 5]);
});

Deno.test("user-defined tokens are split out first, whatever could merge across them", async () => {
  const vocabulary = vocabularyOf({ a: -9, b: -9, ab: -1, "[b]": 0, "▁": -9, "▁a": -1 });
  vocabulary.token_type = int32([unknown, control, control, 1, 1, 1, user_defined, 1, 1]);
  vocabulary.add_space_prefix = bool(true);
  const tokenizer = await readVocabularyOf(vocabulary);
  assert.deepEqual(tokenizer.encode("a[b]ab", { special: false }), [8, 6, 8, 4]);
});

Deno.test("each flaw in a vocabulary of this kind is refused by its key", async () => {
  const right = vocabularyOf({ "<0x0A>": 0, a: -1 });
  right.token_type = int32([unknown, control, control, byte, 1]);
  assert.deepEqual((await readVocabularyOf(right)).encode("a\n", { special: false }), [4, 3]);
  const flaws: [Record<string, GgufValue>, RegExp][] = [
    [{ scores: float32([1]) }, /scores has 1 items for 5 tokens/],
    [{ scores: float32([0, 0, 0, NaN, 0]) }, /scores item 3 is not a number/],
    [{ scores: text("x") }, /scores must be an array of numbers/],
    [{ token_type: int32([unknown, control, control, 1, byte]) }, /tokens item 4, "a", is no byte such as/],
    [
      { token_type: int32([1, control, control, byte, 1]) },
      /neither a token for the byte 0 nor an unknown token/,
    ],
    [{ unknown_token_id: uint32(5) }, /unknown_token_id is 5, but there are 5 tokens/],
    [{ add_space_prefix: uint32(1) }, /add_space_prefix must be a truth value/],
  ];
  for (const [flaw, message] of flaws) {
    await assert.rejects(readVocabularyOf(right, flaw), {
      name: "ServiceError",
      code: "format_invalid",
      message,
    });
  }
  const { scores: _, ...without_scores } = right;
  await assert.rejects(readVocabularyOf(without_scores), { message: /tokenizer.ggml.scores is missing/ });
});
