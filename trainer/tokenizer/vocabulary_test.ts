import assert from "node:assert/strict";
import type { GgufValue } from "../formats/gguf_values.ts";
import { float32, int32, readVocabularyOf, strings, text, uint32 } from "../../tests/vocabulary.ts";
import { MAX_SPECIAL_CHARS, MAX_TOKEN_CHARS, TOKEN_TYPES } from "./vocabulary.ts";

const { normal, unknown, control, user_defined } = TOKEN_TYPES;

/** A vocabulary of some tokens, with an unknown token at 0. */
function vocabularyOf(tokens: string[], types: number[]): Record<string, GgufValue> {
  return {
    model: text("llama"),
    tokens: strings(["<unk>", ...tokens]),
    token_type: int32([unknown, ...types]),
    scores: float32([0, ...tokens.map(() => 0)]),
  };
}

Deno.test("each flaw that any vocabulary may have is refused by its key", async () => {
  const right = vocabularyOf(["a", "<s>"], [normal, control]);
  assert.equal((await readVocabularyOf(right)).size, 3);
  const flaws: [Record<string, GgufValue>, RegExp][] = [
    [{ tokens: text("x") }, /tokens must be an array of strings/],
    [{ tokens: strings(["<unk>", "a", "a"]) }, /tokens holds "a" twice/],
    [{ tokens: strings(["<unk>", "a", ""]) }, /token_type gives the empty token 2 a meaning/],
    [{ token_type: int32([1, 1]) }, /token_type has 2 items for 3 tokens/],
    [{ token_type: int32([1, 1, 9]) }, /unknown kind 9 for token 2/],
    [{ token_type: int32([1, 1, 0]) }, /unknown kind 0 for token 2/],
    [{ eos_token_id: uint32(3) }, /eos_token_id is 3, but there are 3 tokens/],
    [{ bos_token_id: uint32(3) }, /bos_token_id is 3, but there are 3 tokens/],
    [{ eos_token_id: { type: "int32", value: -1 } }, /eos_token_id must be a whole number/],
    [{ add_bos_token: uint32(1) }, /add_bos_token must be a truth value/],
  ];
  for (const [flaw, message] of flaws) {
    await assert.rejects(readVocabularyOf(right, flaw), {
      name: "ServiceError",
      code: "format_invalid",
      message,
    });
  }
});

Deno.test("a token may be long, but not longer than the limit", async () => {
  const long = "a".repeat(MAX_TOKEN_CHARS);
  assert.equal((await readVocabularyOf(vocabularyOf([long], [normal]))).size, 2);
  await assert.rejects(readVocabularyOf(vocabularyOf([`${long}a`], [normal])), {
    message: /tokens item 1 has 1025 characters, more than the limit of 1024/,
  });
});

Deno.test("special tokens together may reach their limit, and not exceed it", async () => {
  const count = MAX_SPECIAL_CHARS / MAX_TOKEN_CHARS;
  const tokens = Array.from({ length: count }, (_, i) => `${i}`.padEnd(MAX_TOKEN_CHARS, "x"));
  // The unknown token counts too.
  tokens[0] = tokens[0]!.slice("<unk>".length);
  const types = tokens.map(() => user_defined);
  const tokenizer = await readVocabularyOf(vocabularyOf(tokens, types));
  assert.deepEqual(tokenizer.encode(tokens[7]!, { special: false }), [8]);
  tokens[0] += "x";
  await assert.rejects(readVocabularyOf(vocabularyOf(tokens, types)), {
    message: /special tokens of tokenizer.ggml.tokens have 1048577 characters in all, more than the limit/,
  });
});
