import assert from "node:assert/strict";
import { sha256OfFile } from "../core/files.ts";
import { withFolder } from "../tests/folder.ts";
import { decodeGreedily, llamaCppMissing } from "../tests/llama_cpp.ts";
import { decodeTensor } from "../trainer/formats/ggml_types.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { readModelShape } from "../trainer/model/architectures/registry.ts";
import { makeModel, randomPieces, SHAPES } from "./make_model.ts";

function moments(values: Iterable<number>): { mean: number; deviation: number } {
  let count = 0, sum = 0, squares = 0;
  for (const value of values) count++, sum += value, squares += value * value;
  return { mean: sum / count, deviation: Math.sqrt(squares / count - (sum / count) ** 2) };
}

Deno.test("values have the requested mean and standard deviation, over several pieces", () => {
  const pieces = [...randomPieces({ count: 2 ** 20 + 5000, mean: 3, deviation: 0.25, seed: 7 })];
  assert.deepEqual(pieces.map((piece) => piece.length), [2 ** 20, 5000]);
  // Standard errors of 2^20 draws: 2.4e-4 of the mean and 1.7e-4 of the deviation.
  const first = moments(pieces[0]!);
  assert.ok(Math.abs(first.mean - 3) < 1e-3, String(first.mean));
  assert.ok(Math.abs(first.deviation - 0.25) < 1e-3, String(first.deviation));
});

Deno.test("the shape of 0.5b is the one of performance figures", () => {
  const { layers, width, heads, kv_heads, head_width, feed_forward } = SHAPES["0.5b"]!;
  assert.deepEqual([layers, width, heads, kv_heads, head_width, feed_forward], [24, 896, 14, 2, 64, 4864]);
});

Deno.test({
  name: "a made model reads back with its shape, its vocabulary and the deviations of its matrices",
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    await withFolder(async (folder) => {
      for (const type of ["f32", "f16", "q8_0"]) {
        const path = `${folder}/${type}.gguf`;
        await makeModel({ shape: "tiny", path, type, seed: 1 });
        using file = await openGguf(path);
        const shape = readModelShape(file);
        assert.deepEqual([shape.layers.length, shape.width, shape.vocabulary, shape.tied], [
          2,
          64,
          1024,
          false,
        ]);
        assert.equal(file.getStrings("tokenizer.ggml.tokens").length, 1024);
        assert.match(file.getString("tokenizer.chat_template"), /<\|im_start\|>/);
        const deviation = async (name: string) =>
          moments(decodeTensor(file.tensorType(name), await file.readTensor(name))).deviation;
        // 8,192 samples: a standard error of 0.8 %, and 8 bits add less than that.
        assert.ok(Math.abs(await deviation("blk.0.ffn_gate.weight") * Math.sqrt(64) - 1) < 0.04);
        assert.ok(Math.abs(await deviation("blk.1.ffn_down.weight") * Math.sqrt(128) * 2 - 1) < 0.04);
        assert.ok(Math.abs(await deviation("token_embd.weight") - 1) < 0.02);
      }
    });
  },
});

Deno.test("the same options give the same bytes, another seed others; what is unknown is refused", async () => {
  await withFolder(async (folder) => {
    const make = async (name: string, seed: number) => {
      await makeModel({ shape: "tiny", path: `${folder}/${name}`, type: "f16", seed });
      return await sha256OfFile(`${folder}/${name}`);
    };
    const first = await make("a.gguf", 1);
    assert.equal(await make("b.gguf", 1), first);
    assert.notEqual(await make("c.gguf", 2), first);
    const wrong = { shape: "7b", path: `${folder}/d.gguf`, type: "f16", seed: 1 };
    await assert.rejects(makeModel(wrong), /Cannot make a model of shape 7b: there are 0\.5b, 0\.6b, tiny/);
    await assert.rejects(makeModel({ ...wrong, shape: "tiny", type: "iq4_nl" }), /of type iq4_nl/);
    await assert.rejects(
      makeModel({ ...wrong, shape: "tiny", type: "q4_k" }),
      /rows of 64 are no blocks of 256/,
    );
    await assert.rejects(
      makeModel({ ...wrong, shape: "tiny", seed: NaN }),
      /the seed must be a whole number/,
    );
  });
});

const missing = llamaCppMissing();

Deno.test({
  name: `llama.cpp loads a made model${missing ? ` (skipped: ${missing})` : ""}`,
  ignore: missing !== null,
  async fn() {
    await withFolder(async (folder) => {
      for (const type of ["f16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"]) {
        const model_path = `${folder}/${type}.gguf`;
        await makeModel({ shape: "tiny", path: model_path, type, seed: 1 });
        const request = { model_path, adapter_path: null, prompts: [[1, 2, 3]], max_new_tokens: 4 };
        const [run] = await decodeGreedily(request);
        assert.ok(run!.tokens.every((token) => token >= 0 && token < 1024));
        assert.ok(run!.margins.every((margin) => margin > 0 && margin < 10));
      }
    });
  },
});
