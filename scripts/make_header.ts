/**
 * Writes the header of a `llama` model of 8 billion parameters in `Q4_K_M` without tensor values, which is enough for
 * `svc plan`. The vocabulary is the tiny agent's, padded with unused tokens.
 *
 *   deno run -A scripts/make_header.ts 8b.gguf
 */

import { fixturePath } from "../tests/fixture.ts";
import type { DecodedType } from "../trainer/formats/ggml_types.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import type { GgufMetadata } from "../trainer/formats/gguf_values.ts";
import { encodeGgufHeader } from "../trainer/formats/gguf_writer.ts";
import { type ModelShape, tensorShapes } from "../trainer/model/model_shape.ts";

const LAYERS = 32, HEAD_WIDTH = 128;

/** Sizes of Llama 3.1 8B. */
export const SHAPE_8B: ModelShape = {
  ...{ architecture: "llama", width: 4096, heads: 32, kv_heads: 8, head_width: HEAD_WIDTH },
  ...{ feed_forward: 14_336, vocabulary: 128_256, norm_eps: 1e-5, context_length: 131_072, tied: false },
  ...{ attention_scale: 1 / Math.sqrt(HEAD_WIDTH), embedding_scale: 1, logit_soft_cap: null },
  layers: Array.from({ length: LAYERS }, () => ({
    rotation: { base: 500_000, pairing: "adjacent" as const, factors: null },
    qk_norm: false,
    biases: [],
    ...{ window: null, attention_soft_cap: null, activation: "silu" as const, norms_after: false },
  })),
};

/** In `tokenizer.ggml.token_type`. */
const UNUSED_TOKEN = 5;

/**
 * The output and, in half of the layers, the value and down projections have Q6_K; the other matrices have Q4_K.
 *
 * @source llama.cpp's `llama_tensor_get_type` and its `use_more_bits`, for `Q4_K_M`.
 */
export function typeInQ4KM(name: string, shape: readonly number[]): DecodedType {
  if (shape.length === 1) return "F32";
  if (name === "output.weight") return "Q6_K";
  const match = /^blk\.(\d+)\.(attn_v|ffn_down)\.weight$/.exec(name);
  if (!match) return "Q4_K";
  const layer = Number(match[1]), eighth = LAYERS / 8;
  return layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 === 2 ? "Q6_K" : "Q4_K";
}

function metadataOf({ width, heads, kv_heads, feed_forward }: ModelShape): GgufMetadata {
  const uint = (value: number) => ({ type: "uint32", value }) as const;
  const float = (value: number) => ({ type: "float32", value }) as const;
  const string = (value: string) => ({ type: "string", value }) as const;
  return new Map(Object.entries({
    "general.architecture": string("llama"),
    "general.name": string("header-8b-q4_k_m"),
    "general.file_type": uint(15),
    "llama.block_count": uint(LAYERS),
    "llama.context_length": uint(SHAPE_8B.context_length),
    "llama.embedding_length": uint(width),
    "llama.feed_forward_length": uint(feed_forward),
    "llama.attention.head_count": uint(heads),
    "llama.attention.head_count_kv": uint(kv_heads),
    "llama.attention.layer_norm_rms_epsilon": float(SHAPE_8B.norm_eps),
    "llama.rope.freq_base": float(500_000),
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

/** Writes the header. */
export async function makeHeader(path: string): Promise<void> {
  using vocabulary = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const tokenizer = fillVocabulary(vocabulary.metadata, SHAPE_8B.vocabulary);
  const tensors = [...tensorShapes(SHAPE_8B)].map(([name, shape]) => ({
    name,
    type: typeInQ4KM(name, shape),
    shape,
  }));
  const metadata: GgufMetadata = new Map([...metadataOf(SHAPE_8B), ...tokenizer]);
  await Deno.writeFile(path, encodeGgufHeader(metadata, tensors));
}

if (import.meta.main) {
  const [path] = Deno.args;
  if (path === undefined) {
    console.error("Usage: deno run -A scripts/make_header.ts <file>");
    Deno.exit(2);
  }
  await makeHeader(path);
}
