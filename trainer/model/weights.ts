/** A model's frozen weights on the device, in the types of its file. */

import { GGUF_NAMES, LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import type { Allocator, Tensor } from "../../kernels/tensor.ts";
import { Q8_0_BLOCK, type Weight } from "../../kernels/weight.ts";
import { float16FromFloat32, float32FromFloat16 } from "../formats/float16.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { decodeTensor } from "../formats/quantize.ts";
import type { ModelShape } from "./model_shape.ts";

export interface LayerWeights {
  attn_norm: Tensor;
  /** Null where queries and keys are not normalised. */
  q_norm: Tensor | null;
  k_norm: Tensor | null;
  ffn_norm: Tensor;
  biases: Partial<Record<LoraTarget, Tensor>>;
  linears: Record<LoraTarget, Weight>;
}

export interface ModelWeights {
  embedding: Weight;
  layers: LayerWeights[];
  output_norm: Tensor;
  /** `[V, C]`; the embedding where the model ties them. */
  output: Weight;
}

/** Bytes of a Q8_0 block in the file: an f16 scale, then 32 signed bytes. */
const Q8_0_FILE_BLOCK = 34;
const PIECE_BYTES = 16 << 20;

/** Uploads every tensor that the shape names, a piece at a time. */
export async function loadWeights(
  allocator: Allocator,
  file: GgufFile,
  shape: ModelShape,
): Promise<ModelWeights> {
  const vector = async (name: string) => {
    const values = await file.readFloats(name);
    return allocator.upload("weights", [values.length], values);
  };
  const embedding = await loadWeight(allocator, file, "token_embd.weight");
  const layers: LayerWeights[] = [];
  for (const [i, { qk_norm, biases }] of shape.layers.entries()) {
    const linears: Partial<Record<LoraTarget, Weight>> = {};
    for (const target of LORA_TARGETS) {
      linears[target] = await loadWeight(allocator, file, `blk.${i}.${GGUF_NAMES[target]}.weight`);
    }
    const added: LayerWeights["biases"] = {};
    for (const target of biases) added[target] = await vector(`blk.${i}.${GGUF_NAMES[target]}.bias`);
    layers.push({
      attn_norm: await vector(`blk.${i}.attn_norm.weight`),
      q_norm: qk_norm ? await vector(`blk.${i}.attn_q_norm.weight`) : null,
      k_norm: qk_norm ? await vector(`blk.${i}.attn_k_norm.weight`) : null,
      ffn_norm: await vector(`blk.${i}.ffn_norm.weight`),
      biases: added,
      linears: linears as Record<LoraTarget, Weight>,
    });
  }
  return {
    embedding,
    layers,
    output_norm: await vector("output_norm.weight"),
    output: shape.tied ? embedding : await loadWeight(allocator, file, "output.weight"),
  };
}

/** F32, F16 and Q8_0 keep their type; BF16 becomes F16 where no value is lost, else F32. */
async function loadWeight(allocator: Allocator, file: GgufFile, name: string): Promise<Weight> {
  const type = file.tensorType(name);
  const shape = file.tensor(name).shape as readonly [number, number];
  if (type === "Q8_0") return await loadQ8(allocator, file, name, shape);
  if (type === "BF16") {
    const values = decodeTensor("BF16", await file.readTensor(name));
    const halves = float16FromFloat32(values);
    if (float32FromFloat16(halves).every((value, i) => value === values[i])) {
      const tensor = allocator.create("weights", shape, "f16");
      allocator.write(tensor, halves);
      return { type: "f16", values: tensor, shape };
    }
    return { type: "f32", values: allocator.upload("weights", shape, values), shape };
  }
  const dtype = type === "F16" ? "f16" : "f32";
  const tensor = allocator.create("weights", shape, dtype);
  let at = 0;
  for await (const piece of file.readTensorPieces(name, PIECE_BYTES)) {
    allocator.write(tensor, piece, at);
    at += piece.length;
  }
  return { type: dtype, values: tensor, shape };
}

/** The file's blocks of 34 bytes taken apart into aligned planes. */
async function loadQ8(
  allocator: Allocator,
  file: GgufFile,
  name: string,
  shape: readonly [number, number],
): Promise<Weight> {
  const values = allocator.create("weights", shape, "i8");
  const scales = allocator.create("weights", [shape[0], shape[1] / Q8_0_BLOCK]);
  let block = 0;
  for await (const piece of file.readTensorPieces(name, PIECE_BYTES)) {
    const blocks = piece.length / Q8_0_FILE_BLOCK;
    const bytes = new Uint8Array(blocks * Q8_0_BLOCK), halves = new Uint8Array(2 * blocks);
    for (let i = 0; i < blocks; i++) {
      const at = i * Q8_0_FILE_BLOCK;
      halves.set(piece.subarray(at, at + 2), 2 * i);
      bytes.set(piece.subarray(at + 2, at + Q8_0_FILE_BLOCK), i * Q8_0_BLOCK);
    }
    allocator.write(values, bytes, block * Q8_0_BLOCK);
    allocator.write(scales, float32FromFloat16(halves), 4 * block);
    block += blocks;
  }
  return { type: "q8_0", values, scales, shape };
}
