/** Vocabularies for the tests of tokenizers. */

import assert from "node:assert/strict";
import { openGguf } from "../trainer/formats/gguf.ts";
import type { GgufMetadata, GgufValue } from "../trainer/formats/gguf_values.ts";
import { writeGguf } from "../trainer/formats/gguf_writer.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import type { Tokenizer } from "../trainer/tokenizer/tokenizer.ts";
import { fixturePath, readFixtureText } from "./fixture.ts";
import { withFolder } from "./folder.ts";

/** The tokenizer of a fixture such as `tokenizers/vocab-qwen2.gguf`. */
export async function fixtureTokenizer(name: string): Promise<Tokenizer> {
  using file = await openGguf(await fixturePath(name));
  return readTokenizer(file);
}

/** Metadata values. */
export const strings = (value: string[]): GgufValue => ({ type: "array", item_type: "string", value });
export const int32 = (value: number[]): GgufValue => ({
  type: "array",
  item_type: "int32",
  value: Int32Array.from(value),
});
export const float32 = (value: number[]): GgufValue => ({
  type: "array",
  item_type: "float32",
  value: Float32Array.from(value),
});
export const text = (value: string): GgufValue => ({ type: "string", value });
export const uint32 = (value: number): GgufValue => ({ type: "uint32", value });
export const bool = (value: boolean): GgufValue => ({ type: "bool", value });

/** Reads a tokenizer from keys below `tokenizer.ggml.`; a later key replaces an earlier one. */
export async function readVocabularyOf(...keys: Record<string, GgufValue>[]): Promise<Tokenizer> {
  const metadata: GgufMetadata = new Map();
  for (const [key, value] of keys.flatMap(Object.entries)) metadata.set(`tokenizer.ggml.${key}`, value);
  let tokenizer: Tokenizer;
  await withFolder(async (folder) => {
    const path = `${folder}/vocabulary.gguf`;
    await writeGguf(path, { metadata, tensors: [] });
    using file = await openGguf(path);
    tokenizer = readTokenizer(file);
  });
  return tokenizer!;
}

/** Asserts that a tokenizer gives llama.cpp's ids for its vocabulary's test vectors, and the texts back. */
export async function assertVectors(tokenizer: Tokenizer, name: string): Promise<void> {
  const texts = (await readFixtureText(`${name}.inp`)).split("\n__ggml_vocab_test__\n");
  const lines = (await readFixtureText(`${name}.out`)).split("\n");
  // The file ends with a separator, so the last text is empty and has no line of ids.
  assert.equal(texts.length, 47);
  texts.forEach((text, i) => {
    const ids = lines[i]!.trim().split(" ").filter((id) => id !== "").map(Number);
    assert.deepEqual(tokenizer.encode(text, { special: false }), ids, JSON.stringify(text));
    assert.equal(tokenizer.decode(ids, { special: true }), text);
  });
}
