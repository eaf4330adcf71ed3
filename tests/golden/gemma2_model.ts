/** A small random gemma2 model whose windows and caps have an effect in every prompt. */

import { Rng, rngKey } from "../../core/random.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import type { GgufMetadata, GgufValue } from "../../trainer/formats/gguf_values.ts";
import { type GgufTensorSource, writeGguf } from "../../trainer/formats/gguf_writer.ts";
import { type ModelShape, tensorShapes } from "../../trainer/model/model_shape.ts";
import { TEST_LAYER, testShape } from "../../trainer/model/model_testing.ts";

/** Shorter than the test prompts. */
export const GEMMA2_WINDOW = 12;
/**
 * Scores have a standard deviation of about 2, logits of about 4: large enough for the caps, small enough for central
 * differences.
 */
const ATTENTION_SOFT_CAP = 2, LOGIT_SOFT_CAP = 5, SCORE_GAIN = 1.5, LOGIT_GAIN = 4;

const SIZES = { width: 64, heads: 4, kv_heads: 2, head_width: 16, feed_forward: 96, context_length: 512 };

function shapeOf(vocabulary: number): ModelShape {
  const layer = { ...TEST_LAYER, qk_norm: false, norms_after: true };
  return testShape(4, {
    ...SIZES,
    architecture: "gemma2",
    tied: true,
    vocabulary,
    layers: Array(4).fill(layer),
  });
}

function metadataOf(shape: ModelShape): GgufMetadata {
  const uint = (value: number): GgufValue => ({ type: "uint32", value });
  const float = (value: number): GgufValue => ({ type: "float32", value });
  return new Map(Object.entries({
    "general.architecture": { type: "string", value: "gemma2" } as const,
    "gemma2.block_count": uint(shape.layers.length),
    "gemma2.context_length": uint(shape.context_length),
    "gemma2.embedding_length": uint(shape.width),
    "gemma2.feed_forward_length": uint(shape.feed_forward),
    "gemma2.attention.head_count": uint(shape.heads),
    "gemma2.attention.head_count_kv": uint(shape.kv_heads),
    "gemma2.attention.key_length": uint(shape.head_width),
    "gemma2.attention.value_length": uint(shape.head_width),
    "gemma2.attention.layer_norm_rms_epsilon": float(1e-6),
    "gemma2.attention.sliding_window": uint(GEMMA2_WINDOW),
    "gemma2.attn_logit_softcapping": float(ATTENTION_SOFT_CAP),
    "gemma2.final_logit_softcapping": float(LOGIT_SOFT_CAP),
  }));
}

/** Mean and standard deviation of a tensor's values. */
function statisticsOf(name: string, [, columns]: readonly number[]): { mean: number; deviation: number } {
  if (name === "output_norm.weight") return { mean: LOGIT_GAIN, deviation: 0.1 };
  if (columns === undefined) return { mean: 1, deviation: 0.2 };
  const gain = /attn_[qk]\./.test(name) ? SCORE_GAIN : 1;
  return { mean: 0, deviation: gain / Math.sqrt(columns) };
}

/** Writes the model in f32 with the vocabulary of another. */
export async function writeGemma2(vocabulary_from: string, to: string): Promise<void> {
  using file = await openGguf(vocabulary_from);
  const shape = shapeOf(file.getStrings("tokenizer.ggml.tokens").length);
  const metadata = metadataOf(shape);
  for (const [key, value] of file.metadata) if (key.startsWith("tokenizer.")) metadata.set(key, value);
  const tensors = [...tensorShapes(shape)].map(([name, dims]): GgufTensorSource => {
    const rng = new Rng(rngKey(2, name)), { mean, deviation } = statisticsOf(name, dims);
    const values = Float32Array.from(
      { length: dims.reduce((a, b) => a * b) },
      () => mean + deviation * rng.normal(),
    );
    return { name, type: "F32", shape: dims, pieces: () => [new Uint8Array(values.buffer)] };
  });
  await writeGguf(to, { metadata, tensors });
}
