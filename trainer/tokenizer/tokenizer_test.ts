import assert from "node:assert/strict";
import fc from "fast-check";
import { readFixtureLines } from "../../tests/fixture.ts";
import { fixtureTokenizer, readVocabularyOf, strings, text } from "../../tests/vocabulary.ts";
import { StreamingDecoder, type Tokenizer } from "./tokenizer.ts";
import { MAX_CACHED_WORD_CHARS, MAX_CACHED_WORDS, WordCache } from "./word_cache.ts";

const tiny = await fixtureTokenizer("models/tiny-agent-f16.gguf");
const qwen = await fixtureTokenizer("tokenizers/vocab-qwen2.gguf");
const llama = await fixtureTokenizer("tokenizers/ggml-vocab-llama-spm.gguf");

/** A text as its tokens keep it: U+2581 is how SentencePiece writes a space. */
const keptText = (text: string, tokenizer: Tokenizer) =>
  tokenizer === llama ? text.replaceAll("\u2581", " ") : text;

Deno.test("decoding an encoded text gives the text, in every kind", () => {
  const awkward = fc.constantFrom(" ", "\n", "\r", "\ufeff", "\u0085", "'s", "<|im_end|>", "<tool_call>");
  const text = fc.string({
    unit: fc.oneof(awkward, fc.string({ unit: "binary", minLength: 1, maxLength: 1 })),
  });
  for (const tokenizer of [tiny, qwen, llama]) {
    fc.assert(fc.property(text.map((drawn) => drawn.toWellFormed()), fc.boolean(), (drawn, special) => {
      const ids = tokenizer.encode(drawn, { special });
      assert.equal(tokenizer.decode(ids, { special: true }), keptText(drawn, tokenizer));
    }));
  }
});

Deno.test("the ids' bytes, one after the other, are the text's, in every kind", () => {
  for (const tokenizer of [tiny, qwen, llama]) {
    fc.assert(fc.property(fc.string({ unit: "grapheme" }), (drawn) => {
      const ids = tokenizer.encode(drawn, { special: false });
      const bytes = ids.flatMap((id) => [...tokenizer.bytesOf(id)]);
      const prefix = tokenizer.has_space_prefix && drawn !== "" ? " " : "";
      const expected = prefix + keptText(drawn, tokenizer);
      assert.equal(new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes)), expected);
    }));
  }
});

Deno.test("a text has no fewer tokens than its length by the longest token says, in every kind", () => {
  for (const tokenizer of [tiny, qwen, llama]) {
    const longest = Array.from({ length: tokenizer.size }, (_, id) => tokenizer.textOf(id))
      .reduce((most, text) => text.length > most.length ? text : most, "");
    assert.ok(tokenizer.longest_token >= longest.length);
    const piece = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom(longest, " ".repeat(64), "<|im_end|>"),
    );
    fc.assert(fc.property(fc.array(piece), (drawn) => {
      const text = drawn.join(""), least = Math.ceil(text.length / tokenizer.longest_token);
      assert.ok(tokenizer.encode(text, { special: true }).length >= least);
    }));
  }
});

Deno.test("control tokens are parsed only when asked, user-defined tokens always", () => {
  const text = "<tool_call>x<|im_end|>";
  assert.deepEqual(tiny.encode(text, { special: true }), [1020, 87, 1019]);
  const plain = tiny.encode(text, { special: false });
  assert.equal(plain[0], 1020);
  assert.ok(!plain.includes(1019) && plain.length > 5);
  assert.equal(tiny.decode(plain, { special: false }), text);
  assert.equal(tiny.decode([1020, 87, 1019], { special: false }), "<tool_call>x");
  assert.deepEqual([tiny.isControl(1019), tiny.isControl(1020), tiny.isControl(87)], [true, false, false]);
});

Deno.test("streaming returns only complete characters, and in total the same as decoding at once", async () => {
  const [trace] = await readFixtureLines("models/tiny-agent/sft-traces.jsonl");
  const texts = ["日本語 😀 naïve e\u0301 Zürich", JSON.stringify(trace), "\ufeffa", " two  spaces"];
  const broken = [[162, 245, 39, 172, 253], [127]];
  for (const tokenizer of [tiny, llama]) {
    for (const ids of [...texts.map((text) => tokenizer.encode(text, { special: true })), ...broken]) {
      const whole = tokenizer.decode(ids, { special: true });
      const decoder = new StreamingDecoder(tokenizer, { special: true });
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
  }
  assert.equal(tiny.decode([127], { special: true }), "\ufffd");
});

Deno.test("a character of several tokens is returned with its last byte", () => {
  for (const [tokenizer, character] of [[tiny, "日"], [llama, "🦙"]] as const) {
    const ids = tokenizer.encode(`x${character}`, { special: true }).slice(1);
    assert.ok(ids.length > 1);
    const decoder = new StreamingDecoder(tokenizer, { special: true });
    assert.deepEqual(ids.map((id) => decoder.push(id)), [...ids.slice(1).map(() => ""), character]);
  }
});

Deno.test("a kind that is not built is refused by name", async () => {
  for (const model of ["rwkv", "__proto__"]) {
    await assert.rejects(readVocabularyOf({ model: text(model), tokens: strings(["a"]) }), {
      name: "ServiceError",
      code: "not_built",
      message: new RegExp(`tokenizer.ggml.model ${model} is not supported; supported are gpt2, llama$`),
    });
  }
});

Deno.test("the word cache is bounded and keeps what is in use", () => {
  const cache = new WordCache();
  /** How often a request for a word encodes it. */
  const encodings = (word: string) => {
    let count = 0;
    assert.deepEqual(cache.tokensOf(word, () => (count++, [word.length])), [word.length]);
    return count;
  };
  assert.equal(encodings("kept"), 1);
  for (let i = 0; i < 5 * MAX_CACHED_WORDS; i++) {
    assert.equal(encodings(`word${i}`), 1);
    if (i % 1000 === 0) assert.equal(encodings("kept"), 0);
    assert.ok(cache.size <= 2 * MAX_CACHED_WORDS);
  }
  assert.equal(encodings("word0"), 1, "it was dropped");
  const longest = "x".repeat(MAX_CACHED_WORD_CHARS);
  assert.deepEqual([encodings(longest), encodings(longest)], [1, 0]);
  assert.deepEqual([encodings(`${longest}x`), encodings(`${longest}x`)], [1, 1]);
});
