/**
 * `w = d·scale·(q − 32)` for blocks of 256 in 16 parts of 16: 128 bytes of the four low bits of q, 64 of the two high
 * ones, 16 signed scales, and d in half precision. Each half of a block is four quarters of 32: byte i of the half's
 * first 32 has element i of quarters 0 (low) and 2 (high), the next 32 those of 1 and 3; byte i of its high bits
 * has two bits of each quarter.
 */

import { alignedBytes, float32FromFloat16 } from "../../core/float16.ts";
import wgsl from "./q6_k.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 256, PART = 16;
const LOW_BYTES = 128, QUANT_BYTES = 192, SCALE_BYTES = VALUES / PART;
const BLOCK_BYTES = QUANT_BYTES + SCALE_BYTES + 2;
/** Bytes of a block's scales on the device: d in single precision, then the parts' scales. */
const PLANE_BYTES = 4 + SCALE_BYTES;

function repack(bytes: Uint8Array): [Uint16Array<ArrayBuffer>, Uint16Array<ArrayBuffer>] {
  const aligned = alignedBytes(bytes, 2), blocks = bytes.length / BLOCK_BYTES;
  const from = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
  const values = new Uint16Array(blocks * QUANT_BYTES / 2),
    scales = new Uint16Array(blocks * PLANE_BYTES / 2);
  const halves = new Uint16Array(blocks);
  for (let block = 0, at = 0, to = 0; block < blocks; block++) {
    for (const end = to + QUANT_BYTES / 2; to < end;) values[to++] = from[at++]!;
    const first = block * PLANE_BYTES / 2 + 2;
    for (let i = 0; i < SCALE_BYTES / 2; i++) scales[first + i] = from[at++]!;
    halves[block] = from[at++]!;
  }
  // Half precision is widened here: d is often subnormal, and a device may take such numbers for 0.
  const widened = float32FromFloat16(new Uint8Array(halves.buffer)), floats = new Float32Array(scales.buffer);
  for (let block = 0; block < blocks; block++) floats[block * PLANE_BYTES / 4] = widened[block]!;
  return [values, scales];
}

function decode(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const [words, scales] = repack(bytes), blocks = bytes.length / BLOCK_BYTES;
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
    { name: "values", dtype: "u32", block_elements: QUANT_BYTES / 4 },
    { name: "scales", dtype: "u32", block_elements: PLANE_BYTES / 4 },
  ],
  repack,
  decode,
  wgsl: { file: "weights/q6_k.wgsl", text: wgsl },
};
