/**
 * `w = d·scale·(q − 32)` for blocks of 256 in 16 parts of 16: 128 bytes of the four low bits of q, 64 of the two high
 * ones, 16 signed scales, and d in half precision. Each half of a block is four quarters of 32: byte i of the half's
 * first 32 has element i of quarters 0 (low) and 2 (high), the next 32 those of 1 and 3; byte i of its high bits
 * has two bits of each quarter.
 */

import { copyWords, halfAt, PlaneArrays, widenedHalves, wordsOf } from "./block_words.ts";
import wgsl from "./q6_k.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 256, PART = 16;
const LOW_BYTES = 128, QUANT_BYTES = 192, SCALE_BYTES = VALUES / PART;
const BLOCK_BYTES = QUANT_BYTES + SCALE_BYTES + 2;
/** Bytes of a block's scales on the device: d in single precision, then the parts' scales. */
const PLANE_BYTES = 4 + SCALE_BYTES;
const QUANT_WORDS = QUANT_BYTES / 4, PLANE_WORDS = PLANE_BYTES / 4;

function repack(
  bytes: Uint8Array,
  arrays: PlaneArrays,
): [Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>] {
  const from = wordsOf(bytes), widened = widenedHalves(), blocks = bytes.length / BLOCK_BYTES;
  const values = arrays.words(0, blocks * QUANT_WORDS), scales = arrays.words(1, blocks * PLANE_WORDS);
  for (let block = 0; block < blocks; block++) {
    const half = block * BLOCK_BYTES / 2, to = block * PLANE_WORDS;
    copyWords(from, half, [values, block * QUANT_WORDS, QUANT_WORDS]);
    scales[to] = widened[halfAt(from, half + (BLOCK_BYTES - 2) / 2)]!;
    copyWords(from, half + 2 * QUANT_WORDS, [scales, to + 1, PLANE_WORDS - 1]);
  }
  return [values, scales];
}

function decode(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const [words, scales] = repack(bytes, new PlaneArrays()), blocks = bytes.length / BLOCK_BYTES;
  const quants = new Uint8Array(words.buffer), factors = new Int8Array(scales.buffer);
  const floats = new Float32Array(scales.buffer), values = new Float32Array(blocks * VALUES);
  for (let block = 0, to = 0; block < blocks; block++) {
    const first = block * QUANT_BYTES, factor = block * PLANE_BYTES + 4, d = floats[block * PLANE_BYTES / 4]!;
    for (let e = 0; e < VALUES; e++) {
      const half = e >> 7, quarter = e >> 5 & 3, i = e & 31;
      const low = quants[first + 64 * half + 32 * (quarter & 1) + i]! >> 4 * (quarter >> 1) & 15;
      const high = quants[first + LOW_BYTES + 32 * half + i]! >> 2 * quarter & 3;
      values[to++] = d * factors[factor + Math.floor(e / PART)]! * ((low | high << 4) - 32);
    }
  }
  return values;
}

/** @source ggml's `block_q6_K` and `dequantize_row_q6_K`. */
export const q6_k: WeightType = {
  block_values: VALUES,
  block_bytes: BLOCK_BYTES,
  planes: [
    { name: "values", dtype: "u32", block_elements: QUANT_WORDS },
    { name: "scales", dtype: "u32", block_elements: PLANE_WORDS },
  ],
  repack,
  decode,
  wgsl: { file: "weights/q6_k.wgsl", text: wgsl },
};
