import { deepEqual, equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { generate } from "../../trainer/engine/engine_testing.ts";
import type { DecodedType } from "../../trainer/formats/ggml_types.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { type GgufTensorSource, writeGguf } from "../../trainer/formats/gguf_writer.ts";
import { encodeTensor } from "../../trainer/formats/encode_tensor_testing.ts";
import { decodeTensor } from "../../trainer/formats/ggml_types.ts";
import { fixturePath } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { decodeGreedily, llamaCppMissing } from "../llama_cpp.ts";
import { followRun } from "./follow_llama_cpp.ts";
import { openEngine, readGolden, sample } from "./golden.ts";

/** llama.cpp rounds activations to 8 bits for products with such weights, so a smaller lead may change the choice. */
const NEAR_TIE = 0.2;
const NEW_TOKENS = 100;

/** As in a file of Q4_K_M, where the embedding table and some projections have more bits; and the other types. */
function typeOf(name: string): DecodedType {
  if (/token_embd|attn_v/.test(name)) return "Q6_K";
  if (/ffn_down/.test(name)) return "Q5_K";
  if (/blk\.0\.attn_output/.test(name)) return "Q5_0";
  if (/blk\.1\.attn_output/.test(name)) return "Q5_1";
  if (/blk\.0\.ffn_up/.test(name)) return "Q4_1";
  if (/blk\.1\.ffn_up/.test(name)) return "Q4_0";
  if (/blk\.2\.ffn_up/.test(name)) return "Q8_0";
  return "Q4_K";
}

/** Writes the tiny model's matrices in mixed types, and again as f32 with the decoded values. */
async function writeModels(mixed_path: string, widened_path: string): Promise<void> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const mixed: GgufTensorSource[] = [], widened: GgufTensorSource[] = [];
  for (const { name, shape } of file.tensors.values()) {
    const values = await file.readFloats(name), type = shape.length === 1 ? "F32" : typeOf(name);
    const bytes = encodeTensor(type, values);
    mixed.push({ name, shape, type, pieces: () => [bytes] });
    const floats = encodeTensor("F32", decodeTensor(type, bytes));
    widened.push({ name, shape, type: "F32", pieces: () => [floats] });
  }
  await writeGguf(mixed_path, { metadata: file.metadata, tensors: mixed });
  await writeGguf(widened_path, { metadata: file.metadata, tensors: widened });
}

/** Samples, then takes a training step. Returns the tokens with their log-probabilities, and the adapter's file. */
async function sampleAndTrain(path: string, adapter_path: string) {
  const engine = await openEngine(path), { client } = engine;
  try {
    const { ids } = (await readGolden()).prompts[0]!, sequence = client.newSequence();
    await client.call("sequence_open", { sequence, adapter: null, parent: null, tokens: ids });
    const { tokens, logprobs } = await generate(engine, { sequence, max_tokens: 40 });
    const lora = { rank: 8, alpha: 16, targets: [...LORA_TARGETS] };
    await client.call("adapter_open", { adapter: "trained", source: { type: "init", lora, seed: 5 } });
    const optimizer = {
      ...{ learning_rate: 1e-2, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
      ...{ weight_decay: 0, max_grad_norm: 1 },
    };
    await client.call("train_step", {
      ...{ adapter: "trained", samples: [sample(ids, 0)], optimizer },
      loss: { type: "sft", normalizer: ids.length },
    });
    await client.call("adapter_save", { adapter: "trained", path: adapter_path, peft_dir: null });
    return { tokens, logprobs, adapter: await Deno.readFile(adapter_path) };
  } finally {
    await engine.close();
  }
}

gpuTest("a model of mixed types gives the same bits as one with its values in f32", async () => {
  await withFolder(async (folder) => {
    await writeModels(`${folder}/mixed.gguf`, `${folder}/widened.gguf`);
    const mixed = await sampleAndTrain(`${folder}/mixed.gguf`, `${folder}/mixed_adapter.gguf`);
    const widened = await sampleAndTrain(`${folder}/widened.gguf`, `${folder}/widened_adapter.gguf`);
    equal(mixed.tokens.length, 40);
    deepEqual(mixed.tokens, widened.tokens);
    deepEqual(mixed.logprobs, widened.logprobs);
    ok(mixed.adapter.every((byte, i) => byte === widened.adapter[i]), "one step gives the same adapter");
  });
});

const name = "llama.cpp decodes a model of mixed types as the engine does";
const missing = llamaCppMissing();
if (missing) Deno.test({ name: `${name} (skipped: ${missing})`, ignore: true, fn: () => {} });
else gpuTest(name, () => withFolder(compareWithLlamaCpp));

async function compareWithLlamaCpp(folder: string): Promise<void> {
  const path = `${folder}/mixed.gguf`;
  await writeModels(path, `${folder}/widened.gguf`);
  const golden = await readGolden(), prompts = [0, 2, 4, 7, 8].map((i) => golden.prompts[i]!.ids);
  const runs = await decodeGreedily({
    ...{ model_path: path, adapter_path: null, prompts },
    max_new_tokens: NEW_TOKENS,
  });
  const engine = await openEngine(path);
  try {
    const ties = await Promise.all(
      runs.map((run, i) =>
        followRun(engine, { adapter: null, prompt: prompts[i]!, run, near_tie: NEAR_TIE })
      ),
    );
    const differing = ties.reduce((a, b) => a + b), total = runs.length * NEW_TOKENS;
    console.log(`llama.cpp and the engine chose differently at ${differing} near ties of ${total} tokens`);
    ok(differing <= total / 20, `${differing} of ${total} tokens differ`);
  } finally {
    await engine.close();
  }
}
