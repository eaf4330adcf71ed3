/** What a model file says of the transformer in it. */

import { BUILT_ARCHITECTURES } from "../../config/built.ts";
import { ServiceError } from "../../core/errors.ts";
import { GGUF_NAMES, type LoraTarget } from "../../core/lora_targets.ts";
import { MAX_HEAD_WIDTH } from "../../kernels/attention/attention.ts";
import type { GgufFile } from "../formats/gguf.ts";

/** Sizes of a decoder with grouped-query attention and SwiGLU, in the axes' letters. */
export interface ModelShape {
  architecture: typeof BUILT_ARCHITECTURES[number];
  layers: number;
  /** C */
  width: number;
  /** H */
  heads: number;
  /** K */
  kv_heads: number;
  /** D */
  head_width: number;
  /** F */
  feed_forward: number;
  /** V */
  vocabulary: number;
  norm_eps: number;
  rope_base: number;
  context_length: number;
  /** The output matrix is the embedding. */
  tied: boolean;
}

/**
 * Reads the shape and checks that the file's tensors have it.
 *
 * @throws {ServiceError} `not_built` for another architecture or scaled rotations, `format_invalid` for a shape that
 * contradicts itself.
 */
export function readModelShape(file: GgufFile): ModelShape {
  const architecture = file.getString("general.architecture");
  if (!(BUILT_ARCHITECTURES as readonly string[]).includes(architecture)) {
    throw new ServiceError(
      "not_built",
      `Cannot load ${file.path}: the architecture ${architecture} is not in this build, which has ${
        BUILT_ARCHITECTURES.join(", ")
      }`,
      { architecture },
    );
  }
  const key = (name: string) => `${architecture}.${name}`;
  const scaling = file.getString(key("rope.scaling.type"), "none");
  if (scaling !== "none") {
    throw new ServiceError(
      "not_built",
      `Cannot load ${file.path}: rotations scaled by ${scaling} are not in this build`,
      { scaling },
    );
  }
  const width = file.getUint(key("embedding_length"));
  const heads = file.getUint(key("attention.head_count"));
  const shape: ModelShape = {
    architecture: architecture as ModelShape["architecture"],
    layers: file.getUint(key("block_count")),
    width,
    heads,
    kv_heads: file.getUint(key("attention.head_count_kv"), heads),
    head_width: file.getUint(key("attention.key_length"), Math.floor(width / heads)),
    feed_forward: file.getUint(key("feed_forward_length")),
    vocabulary: file.tensor("token_embd.weight").shape[0]!,
    norm_eps: file.getFloat(key("attention.layer_norm_rms_epsilon")),
    rope_base: file.getFloat(key("rope.freq_base"), 10_000),
    context_length: file.getUint(key("context_length")),
    tied: !file.tensors.has("output.weight"),
  };
  checkSizes(file, shape);
  return shape;
}

function checkSizes(file: GgufFile, shape: ModelShape): void {
  const { layers, heads, kv_heads, head_width, width, feed_forward, vocabulary } = shape;
  const refuse = (reason: string) => {
    throw new ServiceError("format_invalid", `Cannot load ${file.path}: ${reason}`, { path: file.path });
  };
  // Before anything is listed layer by layer: a made-up count could be of any size.
  if (layers > file.tensors.size) {
    refuse(`block_count is ${layers}, but the file has ${file.tensors.size} tensors: it lacks its layers`);
  }
  if (!(shape.norm_eps > 0)) refuse(`the norm's epsilon is ${shape.norm_eps}`);
  if (!(shape.rope_base > 0)) refuse(`the base of rotations is ${shape.rope_base}`);
  if (layers < 1 || heads < 1 || kv_heads < 1 || heads % kv_heads !== 0) {
    refuse(`${layers} layers with ${heads} query heads and ${kv_heads} key/value heads do not make a model`);
  }
  // Kernels read vectors of 4, and an adapter's matrices are bound at 256 bytes: 4 ranks of 16 numbers.
  const steps = { width: 16, feed_forward: 16, head_width: head_width > 32 ? 16 : 4, vocabulary: 4 };
  const sizes = { width, feed_forward, head_width, vocabulary };
  for (const [name, size] of Object.entries(sizes) as [keyof typeof sizes, number][]) {
    const step = steps[name];
    if (size < step || size % step !== 0) refuse(`${name} is ${size}, which is no multiple of ${step}`);
  }
  if ((heads * head_width) % 16 !== 0) refuse(`${heads} heads of ${head_width} are no multiple of 16 wide`);
  if (head_width > MAX_HEAD_WIDTH) refuse(`heads of ${head_width} are wider than ${MAX_HEAD_WIDTH}`);
  for (const [name, expected] of tensorShapes(shape)) {
    const { shape: found } = file.tensor(name);
    if (found.length !== expected.length || found.some((size, axis) => size !== expected[axis])) {
      refuse(`the tensor ${name} is [${found}], where the metadata asks for [${expected}]`);
    }
  }
}

/**
 * Reads the shape of a model that can be loaded whole: every tensor has its place, and a type that is read.
 *
 * @throws {ServiceError} As {@link readModelShape}; `format_invalid` also for tensors of other types.
 */
export function readTrainableShape(file: GgufFile): ModelShape {
  const shape = readModelShape(file);
  for (const name of tensorShapes(shape).keys()) file.tensorType(name);
  return shape;
}

/** Every tensor that the model needs, with its row-major shape. */
export function tensorShapes(shape: ModelShape): Map<string, number[]> {
  const { width, head_width, layers, vocabulary } = shape;
  const out = new Map<string, number[]>([
    ["token_embd.weight", [vocabulary, width]],
    ["output_norm.weight", [width]],
  ]);
  if (!shape.tied) out.set("output.weight", [vocabulary, width]);
  for (let layer = 0; layer < layers; layer++) {
    const name = (part: string) => `blk.${layer}.${part}.weight`;
    for (const norm of ["attn_norm", "ffn_norm"]) out.set(name(norm), [width]);
    for (const norm of ["attn_q_norm", "attn_k_norm"]) out.set(name(norm), [head_width]);
    for (const [target, part] of Object.entries(GGUF_NAMES)) {
      const { out_width, in_width } = linearShape(shape, target as LoraTarget);
      out.set(name(part), [out_width, in_width]);
    }
  }
  return out;
}

/** Widths of a projection's output and input. */
export function linearShape(shape: ModelShape, target: LoraTarget): { out_width: number; in_width: number } {
  const { width, heads, kv_heads, head_width, feed_forward } = shape;
  const attention = heads * head_width, key_value = kv_heads * head_width;
  switch (target) {
    case "q_proj":
      return { out_width: attention, in_width: width };
    case "k_proj":
    case "v_proj":
      return { out_width: key_value, in_width: width };
    case "o_proj":
      return { out_width: width, in_width: attention };
    case "gate_proj":
    case "up_proj":
      return { out_width: feed_forward, in_width: width };
    case "down_proj":
      return { out_width: width, in_width: feed_forward };
  }
}
