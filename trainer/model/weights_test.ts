import { deepEqual, equal, ok } from "node:assert/strict";
import { gpuTest, randomNormal } from "../../kernels/testing.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { Allocator, type Tensor } from "../../kernels/tensor.ts";
import type { Weight } from "../../kernels/weight.ts";
import type { DecodedType } from "../formats/ggml_types.ts";
import { openGguf } from "../formats/gguf.ts";
import { type GgufTensorSource, writeGguf } from "../formats/gguf_writer.ts";
import { decodeTensor, encodeTensor } from "../formats/quantize.ts";
import { tensorShapes } from "./model_shape.ts";
import { testShape } from "./testing.ts";
import { loadWeights } from "./weights.ts";

const SHAPE = testShape(1, {
  ...{ width: 64, heads: 2, kv_heads: 1, head_width: 32, feed_forward: 32, vocabulary: 32, tied: true },
});

/** A type for every matrix; values that only f32 holds stand in one of BF16. */
const TYPES: Record<string, DecodedType> = {
  "token_embd.weight": "Q8_0",
  "blk.0.attn_q.weight": "F32",
  "blk.0.attn_k.weight": "F16",
  "blk.0.attn_v.weight": "BF16",
  "blk.0.ffn_up.weight": "BF16",
};
const HUGE = "blk.0.ffn_up.weight";

gpuTest(
  "weights keep their type and values; BF16 becomes F16 where that loses nothing, else F32",
  async (gpu) => {
    const path = await Deno.makeTempFile({ suffix: ".gguf" });
    const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
    const bytes = new Map<string, Uint8Array>();
    try {
      const tensors = [...tensorShapes(SHAPE)].map(([name, shape], i): GgufTensorSource => {
        const count = shape.reduce((a, b) => a * b), type = TYPES[name] ?? "F32";
        const values = Float32Array.from(randomNormal(i, count));
        if (name === HUGE) values[3] = 1e30;
        bytes.set(name, encodeTensor(type, values));
        return { name, type, shape, pieces: () => [bytes.get(name)!] };
      });
      await writeGguf(path, { metadata: new Map(), tensors });
      using file = await openGguf(path);
      const weights = await loadWeights(allocator, file, SHAPE), [layer] = weights.layers;
      const read = async (tensor: Tensor) => (await recorder.submitAndRead([tensor]))[0]!;
      const valuesOf = async (weight: Weight): Promise<Float32Array> => {
        const raw = await read(weight.values);
        if (weight.type === "f32") return new Float32Array(raw);
        if (weight.type === "f16") return Float32Array.from(new Float16Array(raw));
        ok(weight.type === "q8_0");
        const scales = new Float32Array(await read(weight.scales));
        return Float32Array.from(new Int8Array(raw), (value, i) => value * scales[Math.floor(i / 32)]!);
      };
      const expect = async (name: string, weight: Weight, type: Weight["type"]) => {
        equal(weight.type, type, name);
        deepEqual(weight.shape, tensorShapes(SHAPE).get(name));
        deepEqual(await valuesOf(weight), decodeTensor(TYPES[name] ?? "F32", bytes.get(name)!), name);
      };
      await expect("token_embd.weight", weights.embedding, "q8_0");
      equal(weights.output, weights.embedding, "a tied model has one matrix for both");
      await expect("blk.0.attn_q.weight", layer!.linears.q_proj, "f32");
      await expect("blk.0.attn_k.weight", layer!.linears.k_proj, "f16");
      await expect("blk.0.attn_v.weight", layer!.linears.v_proj, "f16");
      await expect("blk.0.ffn_up.weight", layer!.linears.up_proj, "f32");
      const norm = new Float32Array(await read(layer!.ffn_norm));
      deepEqual(norm, decodeTensor("F32", bytes.get("blk.0.ffn_norm.weight")!));
      ok(allocator.bytes.weights! > 0);
    } finally {
      recorder.destroy();
      allocator.destroy();
      await Deno.remove(path);
    }
  },
);
