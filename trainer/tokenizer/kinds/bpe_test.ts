import assert from "node:assert/strict";
import { readFixtureJson } from "../../../tests/fixture.ts";
import {
  assertVectors,
  bool,
  fixtureTokenizer,
  int32,
  readVocabularyOf,
  strings,
  text,
  uint32,
} from "../../../tests/vocabulary.ts";
import type { GgufValue } from "../../formats/gguf_values.ts";
import { CHARACTER_OF_BYTE } from "../bpe/byte_table.ts";
import { MAX_WORD_BYTES } from "./bpe.ts";

const tiny = await fixtureTokenizer("models/tiny-agent-f16.gguf");
const qwen = await fixtureTokenizer("tokenizers/vocab-qwen2.gguf");

Deno.test("the vocabularies of qwen2 and GPT-2 give llama.cpp's ids in all test vectors", async () => {
  await assertVectors(qwen, "tokenizers/vocab-qwen2.gguf");
  const gpt2 = await fixtureTokenizer("tokenizers/ggml-vocab-gpt-2.gguf");
  await assertVectors(gpt2, "tokenizers/ggml-vocab-gpt-2.gguf");
  assert.deepEqual([gpt2.size, gpt2.bos_id, gpt2.end_ids, gpt2.adds_bos], [50257, 50256, [50256], false]);
});

Deno.test("the tiny agent's texts and prompts have the ids that PyTorch and llama.cpp used", async () => {
  const golden = await readFixtureJson("models/tiny-agent/golden.json");
  assert.equal(golden.tokenizer.length, 10);
  for (const { text, ids } of [...golden.tokenizer, ...golden.prompts]) {
    assert.deepEqual(tiny.encode(text, { special: true }), ids, JSON.stringify(text));
    assert.equal(tiny.decode(ids, { special: true }), text);
  }
  assert.deepEqual([tiny.size, tiny.bos_id, tiny.eos_id, tiny.adds_bos], [
    1024,
    golden.bos,
    golden.eos,
    false,
  ]);
  assert.deepEqual(tiny.end_ids, [1017, 1019]);
  assert.deepEqual(qwen.end_ids, [151643, 151645]);
});

Deno.test("long words do not take quadratic time", () => {
  // One pass per merge over 300,000 characters would be about 10^10 steps.
  for (
    const text of [
      "ab".repeat(150_000),
      " ".repeat(300_000),
      "日本".repeat(50_000),
      "!".repeat(MAX_WORD_BYTES + 1),
    ]
  ) {
    assert.equal(qwen.decode(qwen.encode(text, { special: false }), { special: true }), text);
  }
});

/** A vocabulary of the 256 bytes, "ab", an end token and "abc", which no merge forms. */
const tokens = [...CHARACTER_OF_BYTE, "ab", "<|end|>", "abc"];
const small: Record<string, GgufValue> = {
  model: text("gpt2"),
  pre: text("qwen2"),
  tokens: strings(tokens),
  token_type: int32(tokens.map((_, id) => id === 257 ? 3 : 1)),
  merges: strings(["a b"]),
  eos_token_id: uint32(257),
};

Deno.test({
  name: "a small vocabulary works, and each flaw in it is refused by its key",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const tokenizer = await readVocabularyOf(small);
    assert.deepEqual(tokenizer.encode("xab<|end|>", { special: true }), [120, 256, 257]);
    assert.deepEqual(tokenizer.end_ids, [257]);
    assert.equal(tokenizer.bos_id, null);
    const flaws: [string, GgufValue, RegExp][] = [
      ["pre", text("tekken"), /pre tekken is not supported; supported are qwen2, .*gpt-2, .*default$/],
      ["pre", text("__proto__"), /__proto__ is not supported/],
      [
        "tokens",
        strings(["ab", ...CHARACTER_OF_BYTE.slice(1), "<|end|>", "abc", "abd"]),
        /no token for the byte 0/,
      ],
      ["merges", strings(["a b", "a  b"]), /merges item 1, "a {2}b"/],
      ["merges", strings(["ab"]), /merges item 0, "ab"/],
      ["merges", strings(["b a"]), /merges item 0, "b a"/],
    ];
    for (const [key, value, message] of flaws) {
      await assert.rejects(readVocabularyOf(small, { [key]: value }), { name: "ServiceError", message });
    }
  },
});

Deno.test("the pre-tokenizer says whether complete words are taken and a begin token is added", async () => {
  const of = async (pre: string, keys: Record<string, GgufValue> = {}) => {
    const tokenizer = await readVocabularyOf(small, { pre: text(pre) }, keys);
    return [tokenizer.encode("abc", { special: false }), tokenizer.adds_bos];
  };
  assert.deepEqual(await of("llama-bpe"), [[258], true]);
  assert.deepEqual(await of("llama-bpe", { add_bos_token: bool(false) }), [[258], false]);
  assert.deepEqual(await of("gpt-2"), [[256, "c".charCodeAt(0)], false]);
  // Plain text never produces a control token, not even as a complete word.
  const types = int32(tokens.map((_, id) => id >= 257 ? 3 : 1));
  assert.deepEqual(await of("llama-bpe", { token_type: types }), [[256, "c".charCodeAt(0)], true]);
});
