/** The frozen weights of a model on the device, in the types of its file. */

import { GGUF_NAMES, LORA_TARGETS, type LoraTarget } from "../../core/lora_targets.ts";
import { roundUp } from "../../kernels/shape.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { PlaneArrays } from "../../kernels/weights/block_words.ts";
import { createWeight, type Weight, writeWeight } from "../../kernels/weights/weight.ts";
import { ggmlType, weightTypeName } from "../formats/ggml_types.ts";
import type { GgufFile } from "../formats/gguf.ts";
import {
  type LayerNorm,
  layerNorms,
  type LayerShape,
  layerTensorName,
  MODEL_TENSORS,
  type ModelShape,
  NORM_NAMES,
} from "./model_shape.ts";

/** The weights of one layer. Norms are `[C]`, `q_norm` and `k_norm` `[D]`, projections `[out, in]`. */
export interface LayerWeights {
  attn_norm: Tensor;
  /** Null if queries and keys have no norm. */
  q_norm: Tensor | null;
  k_norm: Tensor | null;
  ffn_norm: Tensor;
  /** The norms of the outputs of attention and feed-forward; null without one. */
  attn_out_norm: Tensor | null;
  ffn_out_norm: Tensor | null;
  biases: Partial<Record<LoraTarget, Tensor>>;
  linears: Record<LoraTarget, Weight>;
}

/** All weights of a model. */
export interface ModelWeights {
  /** `[V, C]` */
  embedding: Weight;
  layers: LayerWeights[];
  output_norm: Tensor;
  /** `[V, C]`; the same as `embedding` if the model ties them. */
  output: Weight;
}

/** Allocated weights that may not be filled yet, also by their names in the file. */
export interface CreatedWeights {
  weights: ModelWeights;
  by_name: ReadonlyMap<string, Weight | Tensor>;
}

/** The default size of the pieces in which tensors are read and uploaded. */
const PIECE_BYTES = 16 << 20;

/** Tensors of vectors that share a buffer start at multiples of this many f32, because bindings start at 256 bytes. */
const VECTOR_STEP = 64;

/** The names of the vectors that queries, keys and values of a layer are computed with, besides their matrices. */
function headVectors(index: number, layer: LayerShape): string[] {
  const norms = layerNorms(layer).filter((name) => name === "q_norm" || name === "k_norm");
  const biases = layer.biases.filter((target) => ["q_proj", "k_proj", "v_proj"].includes(target));
  return [
    ...norms.map((name) => layerTensorName(index, NORM_NAMES[name])),
    ...biases.map((target) => layerTensorName(index, GGUF_NAMES[target], "bias")),
  ];
}

/** Allocates every tensor of the shape. Only the header of the file is read. */
export function createWeights(allocator: Allocator, file: GgufFile, shape: ModelShape): CreatedWeights {
  const by_name = new Map<string, Weight | Tensor>();
  const matrix = (name: string): Weight => {
    const type = weightTypeName(file.tensorType(name));
    const size = file.tensor(name).shape as readonly [number, number];
    const weight = createWeight(allocator, "weights", { type, shape: size, name });
    by_name.set(name, weight);
    return weight;
  };
  const vector = (name: string): Tensor => {
    const made = by_name.get(name);
    if (made && "buffer" in made) return made;
    const tensor = allocator.create("weights", file.tensor(name).shape, "f32", name);
    by_name.set(name, tensor);
    return tensor;
  };
  // Vectors that one kernel reads lie in one tensor, which it binds.
  const sideBySide = (names: readonly string[]): void => {
    const lengths = names.map((name) => file.tensor(name).shape[0]!);
    const steps = lengths.map((length) => roundUp(length, VECTOR_STEP));
    const whole = allocator.create("weights", [steps.reduce((sum, step) => sum + step, 0)]);
    let at = 0;
    names.forEach((name, i) => {
      by_name.set(name, view(whole, [lengths[i]!], at));
      at += steps[i]!;
    });
  };
  const embedding = matrix(MODEL_TENSORS.embedding);
  const layers: LayerWeights[] = [];
  for (const [i, layer] of shape.layers.entries()) {
    const norms = layerNorms(layer);
    const norm = (name: LayerNorm) => vector(layerTensorName(i, NORM_NAMES[name]));
    const optional = (name: LayerNorm) => norms.includes(name) ? norm(name) : null;
    const of_heads = headVectors(i, layer);
    if (of_heads.length > 0) sideBySide(of_heads);
    const linears: Partial<Record<LoraTarget, Weight>> = {};
    for (const target of LORA_TARGETS) {
      linears[target] = matrix(layerTensorName(i, GGUF_NAMES[target]));
    }
    const added: LayerWeights["biases"] = {};
    for (const target of layer.biases) {
      added[target] = vector(layerTensorName(i, GGUF_NAMES[target], "bias"));
    }
    layers.push({
      attn_norm: norm("attn_norm"),
      q_norm: optional("q_norm"),
      k_norm: optional("k_norm"),
      ffn_norm: norm("ffn_norm"),
      attn_out_norm: optional("attn_out_norm"),
      ffn_out_norm: optional("ffn_out_norm"),
      biases: added,
      linears: linears as Record<LoraTarget, Weight>,
    });
  }
  const weights = {
    embedding,
    layers,
    output_norm: vector(MODEL_TENSORS.output_norm),
    output: shape.tied ? embedding : matrix(MODEL_TENSORS.output),
  };
  return { weights, by_name };
}

/** Complete blocks of a matrix in the file. */
interface Piece {
  name: string;
  weight: Weight;
  /** The first block, and the bytes before it and of it with those that follow. */
  block: number;
  at: number;
  bytes: number;
}

function* matrixPieces(
  file: GgufFile,
  { by_name }: CreatedWeights,
  piece_bytes: number,
): Generator<Piece, void> {
  for (const [name, made] of by_name) {
    if ("buffer" in made) continue;
    const { block_bytes } = ggmlType(file.tensorType(name)), all = file.tensor(name).bytes;
    const step = Math.max(1, Math.floor(piece_bytes / block_bytes)) * block_bytes;
    for (let at = 0; at < all; at += step) {
      yield { name, weight: made, block: at / block_bytes, at, bytes: Math.min(step, all - at) };
    }
  }
}

/**
 * Fills allocated weights from the file, piece by piece. While one is taken apart and uploaded, the next one is read.
 * The machine's memory has two pieces, the planes of one, and those that the device did not yet take.
 *
 * @param piece_bytes The most bytes of a piece, a multiple of 4. A piece has at least one block.
 * @throws {ServiceError} `format_invalid` for a file that became shorter.
 */
export async function fillWeights(
  allocator: Allocator,
  file: GgufFile,
  created: CreatedWeights,
  piece_bytes = PIECE_BYTES,
): Promise<void> {
  for (const [name, made] of created.by_name) {
    if ("buffer" in made) allocator.write(made, await file.readFloats(name));
  }
  const pieces = [...matrixPieces(file, created, piece_bytes)], arrays = new PlaneArrays();
  const most = Math.max(0, ...pieces.map(({ bytes }) => bytes));
  const buffers = [0, 1].map(() => new Uint8Array(roundUp(most, 4)));
  const read = async (i: number) => {
    const piece = pieces[i];
    if (!piece) return null;
    const bytes = buffers[i % 2]!.subarray(0, piece.bytes);
    await file.readTensorPart(piece.name, piece.at, bytes);
    return { ...piece, bytes };
  };
  let reading = read(0);
  try {
    for (let i = 0; i < pieces.length; i++) {
      const { weight, bytes, block } = (await reading)!;
      reading = read(i + 1);
      writeWeight(allocator, weight, bytes, block, arrays);
      // Without a submit the driver keeps every piece in the machine's memory.
      allocator.device.queue.submit([]);
    }
  } finally {
    // What is being read ends before the file is closed.
    await reading.catch(() => {});
  }
}
