/**
 * Writes the header of a model without tensor values, which is enough for `svc plan`: a `llama` of 8 billion parameters in
 * `Q4_K_M`, or a `qwen2` of half a billion or of one and a half billion in `F16` or `Q4_K_M`. The vocabulary is the tiny
 * agent's, padded with unused tokens.
 *
 *   deno run -A scripts/make_header.ts 8b.gguf [8b|1.5b|1.5b-q4_k_m|0.5b|0.5b-q4_k_m]
 */

import { fixturePath } from "../tests/fixture.ts";
import { type DecodedType, ggmlType } from "../trainer/formats/ggml_types.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import type { GgufMetadata } from "../trainer/formats/gguf_values.ts";
import { encodeGgufHeader } from "../trainer/formats/gguf_writer.ts";
import { MODEL_TENSORS, type ModelShape, tensorShapes } from "../trainer/model/model_shape.ts";

const LAYERS = 32, HEAD_WIDTH = 128;

/** Sizes of Llama 3.1 8B. */
export const SHAPE_8B: ModelShape = {
  ...{ architecture: "llama", width: 4096, heads: 32, kv_heads: 8, head_width: HEAD_WIDTH },
  ...{ feed_forward: 14_336, vocabulary: 128_256, norm_eps: 1e-5, context_length: 131_072, tied: false },
  qk_permuted: true,
  ...{ attention_scale: 1 / Math.sqrt(HEAD_WIDTH), embedding_scale: 1, logit_soft_cap: null },
  layers: Array.from({ length: LAYERS }, () => ({
    rotation: { base: 500_000, pairing: "adjacent" as const, factors: null },
    qk_norm: false,
    biases: [],
    ...{ window: null, attention_soft_cap: null, activation: "silu" as const, norms_after: false },
  })),
};

/** What the sizes of Qwen2.5 have in common. */
function qwen2(
  { layers, ...sizes }:
    & Pick<ModelShape, "width" | "heads" | "kv_heads" | "head_width" | "feed_forward">
    & { layers: number },
): ModelShape {
  return {
    ...{ architecture: "qwen2", ...sizes, vocabulary: 151_936, norm_eps: 1e-6, context_length: 32_768 },
    ...{ tied: true, qk_permuted: false, attention_scale: 1 / Math.sqrt(sizes.head_width) },
    ...{ embedding_scale: 1, logit_soft_cap: null },
    layers: Array.from({ length: layers }, () => ({
      rotation: { base: 1_000_000, pairing: "half" as const, factors: null },
      qk_norm: false,
      biases: ["q_proj", "k_proj", "v_proj"] as const,
      ...{ window: null, attention_soft_cap: null, activation: "silu" as const, norms_after: false },
    })),
  };
}

/** Sizes of Qwen2.5 0.5B. */
export const SHAPE_05B = qwen2({
  ...{ layers: 24, width: 896, heads: 14, kv_heads: 2, head_width: 64, feed_forward: 4864 },
});

/** Sizes of Qwen2.5 1.5B. */
export const SHAPE_15B = qwen2({
  ...{ layers: 28, width: 1536, heads: 12, kv_heads: 2, head_width: 128, feed_forward: 8960 },
});

/** A model's shape, and the type of a tensor with its number in `general.file_type`. */
interface HeaderModel {
  shape: ModelShape;
  file_type: number;
  typeOf(name: string, shape: readonly number[]): DecodedType;
}

/** In `tokenizer.ggml.token_type`. */
const UNUSED_TOKEN = 5;

/** The types that llama.cpp uses for rows whose length is no multiple of 256. */
const FALLBACKS: Partial<Record<DecodedType, DecodedType>> = { Q4_K: "Q5_0", Q6_K: "Q8_0" };

/**
 * The types of a model in `Q4_K_M`. The output and, in half of the layers, the value and down projections have Q6_K; the
 * other matrices have Q4_K. The embedding of a tied model is its output. Other types replace these where rows do not fit.
 *
 * @source llama.cpp's `llama_tensor_get_type_impl` with its `use_more_bits`, and `tensor_type_fallback`.
 */
function typesInQ4KM({ layers, tied }: ModelShape): HeaderModel["typeOf"] {
  const output = tied ? MODEL_TENSORS.embedding : MODEL_TENSORS.output;
  const [low, high] = [Math.floor(layers.length / 8), Math.floor(7 * layers.length / 8)];
  const hasMoreBits = (layer: number) => layer < low || layer >= high || (layer - low) % 3 === 2;
  return (name, shape) => {
    if (shape.length === 1) return "F32";
    const match = /^blk\.(\d+)\.(attn_v|ffn_down)\.weight$/.exec(name);
    const type = name === output || (match && hasMoreBits(Number(match[1]))) ? "Q6_K" : "Q4_K";
    return shape[1]! % ggmlType(type).block_values === 0 ? type : FALLBACKS[type]!;
  };
}

/** The names on the command line. */
export type HeaderName = "8b" | "0.5b" | "0.5b-q4_k_m" | "1.5b" | "1.5b-q4_k_m";

const allF16: HeaderModel["typeOf"] = (_, shape) => shape.length === 1 ? "F32" : "F16";

const MODELS: Readonly<Record<HeaderName, HeaderModel>> = {
  "8b": { shape: SHAPE_8B, file_type: 15, typeOf: typesInQ4KM(SHAPE_8B) },
  "0.5b": { shape: SHAPE_05B, file_type: 1, typeOf: allF16 },
  "1.5b": { shape: SHAPE_15B, file_type: 1, typeOf: allF16 },
  "1.5b-q4_k_m": { shape: SHAPE_15B, file_type: 15, typeOf: typesInQ4KM(SHAPE_15B) },
  "0.5b-q4_k_m": { shape: SHAPE_05B, file_type: 15, typeOf: typesInQ4KM(SHAPE_05B) },
};

function metadataOf(name: string, { shape, file_type }: HeaderModel): GgufMetadata {
  const { architecture, width, heads, kv_heads, feed_forward, context_length, norm_eps, layers } = shape;
  const uint = (value: number) => ({ type: "uint32", value }) as const;
  const float = (value: number) => ({ type: "float32", value }) as const;
  const string = (value: string) => ({ type: "string", value }) as const;
  return new Map(Object.entries({
    "general.architecture": string(architecture),
    "general.name": string(`header-${name}`),
    "general.file_type": uint(file_type),
    [`${architecture}.block_count`]: uint(layers.length),
    [`${architecture}.context_length`]: uint(context_length),
    [`${architecture}.embedding_length`]: uint(width),
    [`${architecture}.feed_forward_length`]: uint(feed_forward),
    [`${architecture}.attention.head_count`]: uint(heads),
    [`${architecture}.attention.head_count_kv`]: uint(kv_heads),
    [`${architecture}.attention.layer_norm_rms_epsilon`]: float(norm_eps),
    [`${architecture}.rope.freq_base`]: float(layers[0]!.rotation!.base),
  }));
}

/** The tokenizer of a model, padded with unused tokens up to `count`. */
function fillVocabulary(from: GgufMetadata, count: number): GgufMetadata {
  const tokenizer: GgufMetadata = new Map([...from].filter(([key]) => key.startsWith("tokenizer.")));
  const tokens = tokenizer.get("tokenizer.ggml.tokens"), types = tokenizer.get("tokenizer.ggml.token_type");
  if (tokens?.type !== "array" || tokens.item_type !== "string" || types?.type !== "array") {
    throw new Error("the vocabulary has tokens and their types");
  }
  const unused = Array.from({ length: count - tokens.value.length }, (_, i) => `<|unused_${i}|>`);
  const filled = new Int32Array(count).fill(UNUSED_TOKEN);
  filled.set(types.value as Int32Array);
  tokenizer.set("tokenizer.ggml.tokens", { ...tokens, value: [...tokens.value, ...unused] });
  tokenizer.set("tokenizer.ggml.token_type", { type: "array", item_type: "int32", value: filled });
  return tokenizer;
}

/** Writes the header of one of the models. */
export async function makeHeader(path: string, name: HeaderName = "8b"): Promise<void> {
  const model = MODELS[name], { shape: sizes, typeOf } = model;
  using vocabulary = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const tokenizer = fillVocabulary(vocabulary.metadata, sizes.vocabulary);
  const tensors = [...tensorShapes(sizes)].map(([name, shape]) => ({
    name,
    type: typeOf(name, shape),
    shape,
  }));
  const metadata: GgufMetadata = new Map([...metadataOf(name, model), ...tokenizer]);
  await Deno.writeFile(path, encodeGgufHeader(metadata, tensors));
}

if (import.meta.main) {
  const [path, name = "8b"] = Deno.args;
  if (path === undefined || !Object.hasOwn(MODELS, name)) {
    console.error("Usage: deno run -A scripts/make_header.ts <file> [8b|1.5b|0.5b|0.5b-q4_k_m]");
    Deno.exit(2);
  }
  await makeHeader(path, name as HeaderName);
}
