import assert from "node:assert/strict";
import fc from "fast-check";
import { fixturePath, readFixtureJson, readFixtureLines, readFixtureText } from "../../tests/fixture.ts";
import { openGguf } from "../formats/gguf.ts";
import type { GgufMetadata, GgufValue } from "../formats/gguf_values.ts";
import { writeGguf } from "../formats/gguf_writer.ts";
import { CHARACTER_OF_BYTE } from "./byte_table.ts";
import { MAX_WORD_BYTES, StreamingDecoder, Tokenizer } from "./tokenizer.ts";
import { MAX_CACHED_WORDS, WordCache } from "./word_cache.ts";

async function tokenizerOf(name: string): Promise<Tokenizer> {
  using file = await openGguf(await fixturePath(name));
  return Tokenizer.fromGguf(file);
}

const tiny = await tokenizerOf("models/tiny-agent-f16.gguf");
const qwen = await tokenizerOf("tokenizers/vocab-qwen2.gguf");

Deno.test("qwen2's vocabulary gives llama.cpp's ids in all test vectors", async () => {
  const texts = (await readFixtureText("tokenizers/vocab-qwen2.gguf.inp")).split("\n__ggml_vocab_test__\n");
  const lines = (await readFixtureText("tokenizers/vocab-qwen2.gguf.out")).split("\n");
  // The file ends with a separator, so the last text is empty and has no line of ids.
  assert.equal(texts.length, 47);
  texts.forEach((text, i) => {
    const ids = lines[i]!.trim().split(" ").filter((id) => id !== "").map(Number);
    assert.deepEqual(qwen.encode(text, { special: false }), ids, JSON.stringify(text));
    assert.equal(qwen.decode(ids, { special: true }), text);
  });
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

Deno.test("control tokens are parsed only when asked, user-defined tokens always", () => {
  const text = "<tool_call>x<|im_end|>";
  assert.deepEqual(tiny.encode(text, { special: true }), [1020, 87, 1019]);
  const plain = tiny.encode(text, { special: false });
  assert.equal(plain[0], 1020);
  assert.ok(!plain.includes(1019) && plain.length > 5);
  assert.equal(tiny.decode(plain, { special: false }), text);
  assert.equal(tiny.decode([1020, 87, 1019], { special: false }), "<tool_call>x");
  assert.deepEqual([tiny.idOf("<|im_end|>"), tiny.idOf("<tool_call>"), tiny.idOf("x")], [1019, 1020, null]);
  assert.deepEqual([tiny.isControl(1019), tiny.isControl(1020), tiny.isControl(87)], [true, false, false]);
});

Deno.test("decoding an encoded text gives the text", () => {
  const awkward = fc.constantFrom(" ", "\n", "\r", "\ufeff", "\u0085", "'s", "<|im_end|>", "<tool_call>");
  const text = fc.string({
    unit: fc.oneof(awkward, fc.string({ unit: "binary", minLength: 1, maxLength: 1 })),
  });
  for (const tokenizer of [tiny, qwen]) {
    fc.assert(fc.property(text.map((drawn) => drawn.toWellFormed()), fc.boolean(), (drawn, special) => {
      assert.equal(tokenizer.decode(tokenizer.encode(drawn, { special }), { special: true }), drawn);
    }));
  }
});

Deno.test("streaming gives whole characters only, and in all what decoding at once gives", async () => {
  const [trace] = await readFixtureLines("models/tiny-agent/sft-traces.jsonl");
  const texts = ["日本語 😀 naïve e\u0301 Zürich", JSON.stringify(trace), "\ufeffa"];
  for (
    const ids of [...texts.map((text) => tiny.encode(text, { special: true })), [162, 245, 39, 172, 253], [
      127,
    ]]
  ) {
    const whole = tiny.decode(ids, { special: true });
    const decoder = new StreamingDecoder(tiny, { special: true });
    let text = "";
    for (const id of ids) {
      const before = text;
      text += decoder.push(id);
      assert.ok(whole.startsWith(text), "what was given out is never taken back");
      assert.ok(text.isWellFormed(), "no half of a surrogate pair");
      assert.ok(text.length >= before.length);
    }
    assert.equal(text + decoder.end(), whole);
  }
  assert.equal(tiny.decode([127], { special: true }), "\ufffd");
});

Deno.test("a character of several tokens comes with its last byte", () => {
  const ids = tiny.encode("日", { special: true }), decoder = new StreamingDecoder(tiny, { special: true });
  assert.deepEqual(ids.map((id) => decoder.push(id)), [...ids.slice(1).map(() => ""), "日"]);
});

Deno.test("long words take no quadratic work", () => {
  // A pass per merge over 300,000 characters would be some 10^10 steps.
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

Deno.test("the word cache is bounded and keeps what is in use", () => {
  const cache = new WordCache();
  cache.set("kept", [1]);
  for (let i = 0; i < 5 * MAX_CACHED_WORDS; i++) {
    cache.set(`word${i}`, [i]);
    if (i % 1000 === 0) assert.deepEqual(cache.get("kept"), [1]);
    assert.ok(cache.size <= 2 * MAX_CACHED_WORDS);
  }
  assert.equal(cache.get("word0"), undefined);
  cache.set("x".repeat(65), [1]);
  assert.equal(cache.get("x".repeat(65)), undefined);
});

/** A file with a vocabulary of the 256 bytes, "ab" and an end token, in which one thing is changed. */
function metadataWith(changes: GgufMetadata): GgufMetadata {
  const strings = (value: string[]) => ({ type: "array", item_type: "string", value }) as const;
  const tokens = [...CHARACTER_OF_BYTE, "ab", "<|end|>"];
  return new Map([
    ["tokenizer.ggml.model", { type: "string", value: "gpt2" }],
    ["tokenizer.ggml.pre", { type: "string", value: "qwen2" }],
    ["tokenizer.ggml.tokens", strings(tokens)],
    ["tokenizer.ggml.token_type", {
      type: "array",
      item_type: "int32",
      value: Int32Array.from(tokens, (_, id) => id === 257 ? 3 : 1),
    }],
    ["tokenizer.ggml.merges", strings(["a b"])],
    ["tokenizer.ggml.eos_token_id", { type: "uint32", value: 257 }],
    ...changes,
  ]);
}

async function withVocabulary(
  changes: GgufMetadata,
  run: (tokenizer: () => Tokenizer) => void,
): Promise<void> {
  const path = await Deno.makeTempFile();
  try {
    await writeGguf(path, { metadata: metadataWith(changes), tensors: [] });
    using file = await openGguf(path);
    run(() => Tokenizer.fromGguf(file));
  } finally {
    await Deno.remove(path);
  }
}

Deno.test({
  name: "a small vocabulary works, and each flaw in it is refused by its key",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    await withVocabulary(new Map(), (tokenizer) => {
      assert.deepEqual(tokenizer().encode("xab<|end|>", { special: true }), [120, 256, 257]);
      assert.deepEqual(tokenizer().end_ids, [257]);
      assert.equal(tokenizer().bos_id, null);
    });
    const strings = (value: string[]) => ({ type: "array", item_type: "string", value }) as const;
    const int32 = (value: number[]) =>
      ({ type: "array", item_type: "int32", value: Int32Array.from(value) }) as const;
    const text = (value: string) => ({ type: "string", value }) as const;
    const flaws: [string, GgufValue, RegExp][] = [
      ["model", text("llama"), /tokenizer.ggml.model llama with pre qwen2 is not supported/],
      ["pre", text("llama-bpe"), /pre llama-bpe is not supported; supported are gpt2 with qwen2/],
      ["pre", text("__proto__"), /__proto__ is not supported/],
      ["tokens", text("x"), /tokens must be an array of strings/],
      ["tokens", strings([...CHARACTER_OF_BYTE, "ab", "ab"]), /tokens holds "ab" twice/],
      ["tokens", strings(["ab", ...CHARACTER_OF_BYTE.slice(1), "<|end|>"]), /no token for the byte 0/],
      ["token_type", int32([1, 1]), /token_type has 2 items for 258 tokens/],
      ["token_type", int32([...Array(257).fill(1), 9]), /unknown kind 9 for token 257/],
      ["merges", strings(["a b", "a  b"]), /merges item 1, "a {2}b"/],
      ["merges", strings(["ab"]), /merges item 0, "ab"/],
      ["merges", strings(["b a"]), /merges item 0, "b a"/],
      ["eos_token_id", { type: "uint32", value: 258 }, /eos_token_id is 258, but there are 258 tokens/],
      ["eos_token_id", { type: "int32", value: -1 }, /eos_token_id must be a whole number/],
    ];
    for (const [key, value, message] of flaws) {
      await withVocabulary(new Map([[`tokenizer.ggml.${key}`, value]]), (tokenizer) => {
        assert.throws(tokenizer, { name: "ServiceError", message });
      });
    }
  },
});
