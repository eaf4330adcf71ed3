/**
 * Writes a random `qwen3` model of a given shape, for benches at real sizes and for tests.
 *
 *   deno task make-model --shape 0.5b --out model.gguf [--type f16|q8_0|q4_k|...] [--seed 1]
 */

import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import { rngKey } from "../core/random.ts";
import { fixturePath } from "../tests/fixture.ts";
import { type DecodedType, ggmlType } from "../trainer/formats/ggml_types.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import type { GgufMetadata } from "../trainer/formats/gguf_values.ts";
import { type GgufTensorSource, writeGguf } from "../trainer/formats/gguf_writer.ts";
import { encodeTensor } from "../trainer/formats/encode_tensor_testing.ts";

interface ModelSize {
  layers: number;
  width: number;
  heads: number;
  kv_heads: number;
  head_width: number;
  feed_forward: number;
  context_length: number;
  /** The fixture from which the vocabulary and chat template are copied. */
  vocabulary: string;
}

export const SHAPES: Readonly<Record<string, ModelSize>> = {
  "0.5b": {
    layers: 24,
    width: 896,
    heads: 14,
    kv_heads: 2,
    head_width: 64,
    feed_forward: 4864,
    context_length: 32_768,
    vocabulary: "tokenizers/vocab-qwen2.gguf",
  },
  /** Qwen3-0.6B: its rows are complete blocks of every type. */
  "0.6b": {
    layers: 28,
    width: 1024,
    heads: 16,
    kv_heads: 8,
    head_width: 128,
    feed_forward: 3072,
    context_length: 40_960,
    vocabulary: "tokenizers/vocab-qwen2.gguf",
  },
  tiny: {
    layers: 2,
    width: 64,
    heads: 4,
    kv_heads: 2,
    head_width: 32,
    feed_forward: 128,
    context_length: 512,
    vocabulary: "models/tiny-agent-f16.gguf",
  },
};

/** Types of the matrices with their number in `general.file_type`; norms are always F32. */
const TYPES: Readonly<Record<string, { type: DecodedType; file_type: number }>> = {
  f32: { type: "F32", file_type: 0 },
  f16: { type: "F16", file_type: 1 },
  bf16: { type: "BF16", file_type: 32 },
  q4_0: { type: "Q4_0", file_type: 2 },
  q4_1: { type: "Q4_1", file_type: 3 },
  q5_0: { type: "Q5_0", file_type: 8 },
  q5_1: { type: "Q5_1", file_type: 9 },
  q8_0: { type: "Q8_0", file_type: 7 },
  q4_k: { type: "Q4_K", file_type: 14 },
  q5_k: { type: "Q5_K", file_type: 16 },
  q6_k: { type: "Q6_K", file_type: 18 },
};

export interface MakeModelOptions {
  /** A key of {@link SHAPES}. */
  shape: string;
  path: string;
  /** A key of the types above. */
  type: string;
  seed: number;
}

/** Values of a piece: a multiple of every row length, so that no block crosses a piece. */
const PIECE_VALUES = 1 << 20;

/** The sum of four random bytes has mean 510 and this standard deviation, and is close enough to normal for weights. */
const BYTE_SUM_DEVIATION = Math.sqrt(4 * (256 ** 2 - 1) / 12);

/**
 * Seeded values of mean `mean` and standard deviation `deviation`: the sum of the four bytes of each xorshift32 word.
 *
 * @source Marsaglia, "Xorshift RNGs", Journal of Statistical Software 8(14), 2003.
 */
export function* randomPieces(
  { count, mean, deviation, seed }: { count: number; mean: number; deviation: number; seed: number },
): Generator<Float32Array> {
  const scale = deviation / BYTE_SUM_DEVIATION;
  let word = seed | 0 || 1;
  for (let done = 0; done < count; done += PIECE_VALUES) {
    const piece = new Float32Array(Math.min(PIECE_VALUES, count - done));
    for (let i = 0; i < piece.length; i++) {
      word ^= word << 13;
      word ^= word >>> 17;
      word ^= word << 5;
      const sum = (word & 255) + (word >>> 8 & 255) + (word >>> 16 & 255) + (word >>> 24);
      piece[i] = mean + (sum - 510) * scale;
    }
    yield piece;
  }
}

/**
 * All tensors: matrices [out, in] with standard deviation 1/sqrt(in); those that write to the residual stream are
 * smaller.
 */
function tensorsOf(size: ModelSize, rows: number, { type, seed }: { type: DecodedType; seed: number }) {
  const { layers, width, heads, kv_heads, head_width, feed_forward } = size;
  const tensors: GgufTensorSource[] = [];
  const add = (
    name: string,
    shape: number[],
    given: { type: DecodedType; mean: number; deviation: number },
  ) => {
    const count = shape.reduce((product, n) => product * n, 1);
    const [key] = rngKey(seed, name);
    tensors.push({
      name: `${name}.weight`,
      type: given.type,
      shape,
      *pieces() {
        for (const piece of randomPieces({ ...given, count, seed: key })) {
          yield encodeTensor(given.type, piece);
        }
      },
    });
  };
  const matrix = (name: string, shape: [number, number], factor = 1) =>
    add(name, shape, { type, mean: 0, deviation: factor / Math.sqrt(shape[1]) });
  const norm = (name: string, length: number) =>
    add(name, [length], { type: "F32", mean: 1, deviation: 0.1 });
  const residual = 1 / Math.sqrt(2 * layers);

  add("token_embd", [rows, width], { type, mean: 0, deviation: 1 });
  for (let layer = 0; layer < layers; layer++) {
    const block = `blk.${layer}`;
    norm(`${block}.attn_norm`, width);
    matrix(`${block}.attn_q`, [heads * head_width, width]);
    matrix(`${block}.attn_k`, [kv_heads * head_width, width]);
    matrix(`${block}.attn_v`, [kv_heads * head_width, width]);
    norm(`${block}.attn_q_norm`, head_width);
    norm(`${block}.attn_k_norm`, head_width);
    matrix(`${block}.attn_output`, [width, heads * head_width], residual);
    norm(`${block}.ffn_norm`, width);
    matrix(`${block}.ffn_gate`, [feed_forward, width]);
    matrix(`${block}.ffn_up`, [feed_forward, width]);
    matrix(`${block}.ffn_down`, [width, feed_forward], residual);
  }
  norm("output_norm", width);
  matrix("output", [rows, width]);
  return tensors;
}

function metadataOf(shape: string, file_type: number, tokenizer: GgufMetadata): GgufMetadata {
  const size = SHAPES[shape]!;
  const uint = (value: number) => ({ type: "uint32", value }) as const;
  const float = (value: number) => ({ type: "float32", value }) as const;
  const string = (value: string) => ({ type: "string", value }) as const;
  const metadata: GgufMetadata = new Map(Object.entries({
    "general.architecture": string("qwen3"),
    "general.type": string("model"),
    "general.name": string(`random-${shape}`),
    "general.file_type": uint(file_type),
    "general.quantization_version": uint(2),
    "qwen3.block_count": uint(size.layers),
    "qwen3.context_length": uint(size.context_length),
    "qwen3.embedding_length": uint(size.width),
    "qwen3.feed_forward_length": uint(size.feed_forward),
    "qwen3.attention.head_count": uint(size.heads),
    "qwen3.attention.head_count_kv": uint(size.kv_heads),
    "qwen3.attention.key_length": uint(size.head_width),
    "qwen3.attention.value_length": uint(size.head_width),
    "qwen3.attention.layer_norm_rms_epsilon": float(1e-6),
    "qwen3.rope.freq_base": float(1_000_000),
  }));
  for (const [key, value] of tokenizer) if (key.startsWith("tokenizer.")) metadata.set(key, value);
  return metadata;
}

/**
 * Writes the model; the same options give the same bytes.
 *
 * @throws {ServiceError} `config_invalid` for an unknown shape or type.
 */
export async function makeModel({ shape, path, type, seed }: MakeModelOptions): Promise<void> {
  const size = Object.hasOwn(SHAPES, shape) ? SHAPES[shape]! : null;
  const stored = Object.hasOwn(TYPES, type) ? TYPES[type]! : null;
  if (!size || !stored) {
    const [what, given, known] = size ? ["type", type, TYPES] : ["shape", shape, SHAPES];
    const choices = Object.keys(known).join(", ");
    throw new ServiceError("config_invalid", `Cannot make a model of ${what} ${given}: there are ${choices}`);
  }
  const { block_values } = ggmlType(stored.type), rows_of = [size.width, size.heads * size.head_width];
  const askew = [...rows_of, size.feed_forward].find((length) => length % block_values !== 0);
  if (askew !== undefined) {
    throw new ServiceError(
      "config_invalid",
      `Cannot make a model of shape ${shape} and type ${type}: rows of ${askew} are no blocks of ${block_values}`,
    );
  }
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new ServiceError(
      "config_invalid",
      `Cannot make a model: the seed must be a whole number, not ${seed}`,
    );
  }
  using vocabulary = await openGguf(await fixturePath(size.vocabulary));
  const rows = vocabulary.getStrings("tokenizer.ggml.tokens").length;
  const metadata = metadataOf(shape, stored.file_type, vocabulary.metadata);
  await writeGguf(path, { metadata, tensors: tensorsOf(size, rows, { type: stored.type, seed }) });
}

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      shape: { type: "string", default: "0.5b" },
      out: { type: "string" },
      type: { type: "string", default: "f16" },
      seed: { type: "string", default: "1" },
    },
  });
  if (!values.out) {
    console.error(
      "Usage: deno task make-model --shape 0.5b --out <file> [--type f16|q8_0|q4_k|...] [--seed 1]",
    );
    Deno.exit(2);
  }
  try {
    await makeModel({ shape: values.shape, path: values.out, type: values.type, seed: Number(values.seed) });
    console.log(`${values.out}: ${(await Deno.stat(values.out)).size} bytes`);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    console.error(error.message);
    Deno.exit(2);
  }
}
