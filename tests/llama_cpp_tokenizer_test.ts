import assert from "node:assert/strict";
import fc from "fast-check";
import { openGguf } from "../trainer/formats/gguf.ts";
import { writeGguf } from "../trainer/formats/gguf_writer.ts";
import { readTokenizer } from "../trainer/tokenizer/read_tokenizer.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";
import { llamaCppMissing, tokenizeTexts } from "./llama_cpp.ts";
import { strings, text } from "./vocabulary.ts";

const missing = llamaCppMissing();
const suffix = missing ? ` (skipped: ${missing})` : "";

/** Text that pre-tokenizers and merges treat differently. */
const awkward =
  "a|Z|é|ß|ſ|日本|Привет|नमस्ते|e\u0301|1|12|345|6789|٣٤٥|²|½|Ⅷ|'s|'S|'re|'LL|'d|'|’s|!|...|$|+|<=>|^|~|`|_|-|€|→|" +
  "🦙|👍🏽|Hello| world|the |<s>|</s>|<unk>|<|endoftext|>|<0x0A>|▁|ª| |  |\n|\r\n|\t|\u0085|\u00a0|\ufeff|\u3000|\u200d|\0";
const texts = fc.sample(
  fc.string({
    unit: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom(...awkward.split("|"), "|") },
      { weight: 1, arbitrary: fc.string({ unit: "binary", minLength: 1, maxLength: 1 }) },
    ),
    maxLength: 15,
  }).map((drawn) => drawn.toWellFormed()),
  { numRuns: 300, seed: 1 },
);

/** Compares the ids of every text with llama.cpp's, and SentencePiece's texts of them: it tidies those of others. */
async function compare(path: string, { decoded, specials }: { decoded: boolean; specials: boolean[] }) {
  using file = await openGguf(path);
  const tokenizer = readTokenizer(file);
  for (const special of specials) {
    const found = await tokenizeTexts({ model_path: path, texts, special });
    texts.forEach((text, i) => {
      assert.deepEqual(tokenizer.encode(text, { special }), found.ids[i], JSON.stringify(text));
      if (decoded) assert.equal(tokenizer.decode(found.ids[i]!, { special: true }), found.decoded[i]);
    });
  }
}

Deno.test({
  name: `SentencePiece's vocabularies give llama.cpp's ids and texts${suffix}`,
  ignore: missing !== null,
  async fn() {
    await compare(await fixturePath("tokenizers/ggml-vocab-llama-spm.gguf"), {
      decoded: true,
      specials: [false, true],
    });
    await compare(await fixturePath("models/stories260k.gguf"), {
      decoded: true,
      specials: [false, true],
    });
  },
});

Deno.test({
  name: `every pre-tokenizer gives llama.cpp's ids${suffix}`,
  ignore: missing !== null,
  async fn() {
    using file = await openGguf(await fixturePath("tokenizers/ggml-vocab-gpt-2.gguf"));
    // Tokens that no merge makes show whether complete words are looked up first.
    const merges = strings(file.getStrings("tokenizer.ggml.merges").slice(0, 20_000));
    for (const pre of ["gpt-2", "llama-bpe", "smaug-bpe", "smollm", "qwen2", "default"]) {
      await withFolder(async (folder) => {
        const metadata = new Map(file.metadata);
        metadata.set("tokenizer.ggml.pre", text(pre)).set("tokenizer.ggml.merges", merges);
        await writeGguf(`${folder}/vocabulary.gguf`, { metadata, tensors: [] });
        await compare(`${folder}/vocabulary.gguf`, { decoded: false, specials: [false] });
      });
    }
  },
});
