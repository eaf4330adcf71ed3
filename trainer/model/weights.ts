/** A model's frozen weights on the device, in the types of its file. */

import { GGUF_NAMES, LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import type { Allocator, Tensor } from "../../kernels/tensor.ts";
import { createWeight, type Weight, writeWeight } from "../../kernels/weight.ts";
import { ggmlType, weightTypeName } from "../formats/ggml_types.ts";
import type { GgufFile } from "../formats/gguf.ts";
import type { ModelShape } from "./model_shape.ts";

export interface LayerWeights {
  attn_norm: Tensor;
  /** Null where queries and keys are not normalised. */
  q_norm: Tensor | null;
  k_norm: Tensor | null;
  ffn_norm: Tensor;
  /** Of what attention and feed-forward put out; null where it is not normalised. */
  attn_out_norm: Tensor | null;
  ffn_out_norm: Tensor | null;
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

const PIECE_BYTES = 16 << 20;

/** Uploads every tensor that the shape names, at most `piece_bytes` (a multiple of 4) or a block at a time. */
export async function loadWeights(
  allocator: Allocator,
  file: GgufFile,
  shape: ModelShape,
  piece_bytes = PIECE_BYTES,
): Promise<ModelWeights> {
  const matrix = (name: string) => loadWeight(allocator, file, name, piece_bytes);
  const vector = async (name: string) => {
    const values = await file.readFloats(name);
    return allocator.upload("weights", [values.length], values);
  };
  const embedding = await matrix("token_embd.weight");
  const layers: LayerWeights[] = [];
  for (const [i, { qk_norm, norms_after, biases }] of shape.layers.entries()) {
    const linears: Partial<Record<LoraTarget, Weight>> = {};
    for (const target of LORA_TARGETS) {
      linears[target] = await matrix(`blk.${i}.${GGUF_NAMES[target]}.weight`);
    }
    const added: LayerWeights["biases"] = {};
    for (const target of biases) added[target] = await vector(`blk.${i}.${GGUF_NAMES[target]}.bias`);
    layers.push({
      attn_norm: await vector(`blk.${i}.attn_norm.weight`),
      q_norm: qk_norm ? await vector(`blk.${i}.attn_q_norm.weight`) : null,
      k_norm: qk_norm ? await vector(`blk.${i}.attn_k_norm.weight`) : null,
      ffn_norm: await vector(`blk.${i}.ffn_norm.weight`),
      attn_out_norm: norms_after ? await vector(`blk.${i}.post_attention_norm.weight`) : null,
      ffn_out_norm: norms_after ? await vector(`blk.${i}.post_ffw_norm.weight`) : null,
      biases: added,
      linears: linears as Record<LoraTarget, Weight>,
    });
  }
  return {
    embedding,
    layers,
    output_norm: await vector("output_norm.weight"),
    output: shape.tied ? embedding : await matrix("output.weight"),
  };
}

/** A matrix in the type that it has in the file. */
async function loadWeight(
  allocator: Allocator,
  file: GgufFile,
  name: string,
  piece_bytes: number,
): Promise<Weight> {
  const type = file.tensorType(name), { block_bytes } = ggmlType(type);
  const shape = file.tensor(name).shape as readonly [number, number];
  const weight = createWeight(allocator, "weights", { type: weightTypeName(type), shape });
  let block = 0;
  for await (const piece of file.readTensorPieces(name, piece_bytes)) {
    writeWeight(allocator, weight, piece, block);
    block += piece.length / block_bytes;
  }
  return weight;
}
