import { deepEqual, equal, ok } from "node:assert/strict";
import { GGUF_NAMES, LORA_TARGETS } from "../../core/lora_targets.ts";
import { embedding } from "../../kernels/embedding/embedding.ts";
import { gpuTest, randomNormal } from "../../kernels/gpu_testing.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { Allocator, type Tensor } from "../../kernels/tensor.ts";
import type { Weight } from "../../kernels/weights/weight.ts";
import { DECODED_TYPES, type DecodedType, decodeTensor } from "../formats/ggml_types.ts";
import { openGguf } from "../formats/gguf.ts";
import { type GgufTensorSource, writeGguf } from "../formats/gguf_writer.ts";
import { encodeTensor } from "../formats/encode_tensor_testing.ts";
import { tensorShapes } from "./model_shape.ts";
import { testShape } from "./model_testing.ts";
import { createWeights, fillWeights } from "./weights.ts";

const SHAPE = testShape(2, {
  ...{ width: 256, heads: 8, kv_heads: 1, head_width: 32, feed_forward: 32, vocabulary: 32, tied: true },
});

/** Each type once, as files mix them. */
const TYPES: Record<string, DecodedType> = {
  "token_embd.weight": "Q6_K",
  "blk.0.attn_q.weight": "Q4_K",
  "blk.0.attn_k.weight": "F16",
  "blk.0.attn_v.weight": "BF16",
  "blk.0.attn_output.weight": "Q5_K",
  "blk.0.ffn_gate.weight": "Q4_0",
  "blk.0.ffn_up.weight": "Q8_0",
  "blk.1.attn_q.weight": "Q4_1",
  "blk.1.ffn_up.weight": "Q5_0",
  "blk.1.ffn_down.weight": "Q5_1",
};

gpuTest(
  "weights of mixed types keep their type, and what is read of them are their values",
  async (gpu) => {
    const path = await Deno.makeTempFile({ suffix: ".gguf" });
    const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
    const bytes = new Map<string, Uint8Array>();
    try {
      const tensors = [...tensorShapes(SHAPE)].map(([name, shape], i): GgufTensorSource => {
        const count = shape.reduce((a, b) => a * b), type = TYPES[name] ?? "F32";
        const values = Float32Array.from(randomNormal(i, count));
        bytes.set(name, encodeTensor(type, values));
        return { name, type, shape, pieces: () => [bytes.get(name)!] };
      });
      await writeGguf(path, { metadata: new Map(), tensors });
      using file = await openGguf(path);
      const created = createWeights(allocator, file, SHAPE);
      await fillWeights(allocator, file, created, 1000);
      const { weights } = created, [layer] = weights.layers;
      const read = async (tensor: Tensor) => (await recorder.submitAndRead([tensor]))[0]!;
      const expect = async (name: string, weight: Weight) => {
        const type = TYPES[name] ?? "F32";
        equal(weight.type, type.toLowerCase(), name);
        deepEqual(weight.shape, tensorShapes(SHAPE).get(name));
        const x = allocator.create("test", weight.shape), [rows] = weight.shape;
        const ids = allocator.upload("test", [rows], Uint32Array.from({ length: rows }, (_, row) => row));
        embedding(recorder, { ids, table: weight, x });
        deepEqual(new Float32Array(await read(x)), decodeTensor(type, bytes.get(name)!), name);
      };
      await expect("token_embd.weight", weights.embedding);
      equal(weights.output, weights.embedding, "a tied model has one matrix for both");
      for (const [l, { linears }] of weights.layers.entries()) {
        for (const target of LORA_TARGETS) {
          await expect(`blk.${l}.${GGUF_NAMES[target]}.weight`, linears[target]);
        }
      }
      deepEqual(new Set(Object.values(TYPES).concat("F32")), new Set(DECODED_TYPES));
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
