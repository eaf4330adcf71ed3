import assert from "node:assert/strict";
import fc from "fast-check";
import { fixturePath, readFixtureJson, readFixtureText } from "../../../tests/fixture.ts";
import { readVocabularyOf, text } from "../../../tests/vocabulary.ts";
import { openGguf } from "../../formats/gguf.ts";
import { eachWord, pretokenizerNamed, PRETOKENIZERS } from "./pretokenizer.ts";

Deno.test("every pre-tokenizer leads to llama.cpp's ids", async () => {
  const goldens = await readFixtureJson("tokenizers/gpt-2-pretokenizers.json");
  const written = await readFixtureText("tokenizers/ggml-vocab-gpt-2.gguf.inp");
  const texts = written.split("\n__ggml_vocab_test__\n");
  using file = await openGguf(await fixturePath("tokenizers/ggml-vocab-gpt-2.gguf"));
  const vocabulary = Object.fromEntries(
    [...file.metadata].flatMap(([key, value]) => {
      return key.startsWith("tokenizer.ggml.") ? [[key.slice("tokenizer.ggml.".length), value]] : [];
    }),
  );
  assert.deepEqual(Object.keys(goldens), PRETOKENIZERS);
  for (const pre of PRETOKENIZERS) {
    const tokenizer = await readVocabularyOf(vocabulary, { pre: text(pre) });
    texts.forEach((text, i) => {
      assert.deepEqual(tokenizer.encode(text, { special: false }), goldens[pre][i], `${pre}: ${text}`);
    });
  }
});

Deno.test("the words of a text are the text, in every pre-tokenizer", () => {
  const unit = fc.oneof(
    fc.constantFrom(" ", "\n", "\u0085", "\ufeff", "'s", "12", "٣", "!", "$", "a", "é"),
    fc.string({ unit: "binary", minLength: 1, maxLength: 1 }),
  );
  fc.assert(fc.property(fc.string({ unit }), fc.constantFrom(...PRETOKENIZERS), (drawn, name) => {
    const words: string[] = [];
    eachWord(drawn, pretokenizerNamed(name)!, (word) => words.push(word));
    assert.equal(words.join(""), drawn);
    assert.ok(!words.includes(""));
  }));
});
