/**
 * `w = d·(q − 8)`: blocks of 32 with a half-precision scale d, then 16 bytes. Byte j has q of element j in its low half
 * and of element j + 16 in its high half.
 */

import { splitScaledBlocks } from "./scaled_blocks.ts";
import wgsl from "./q4_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 32, HALF = VALUES / 2;

/**
 * `d = m / −8` of the value m of largest magnitude, `q = ⌊x / d + 8.5⌋` up to 15.
 *
 * @source ggml's `quantize_row_q4_0_ref`.
 */
function encode(values: Float32Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(values.length / VALUES * (2 + HALF)), view = new DataView(bytes.buffer);
  for (let from = 0, to = 0; from < values.length; from += VALUES, to += 2 + HALF) {
    const block = values.subarray(from, from + VALUES);
    const scale = Math.fround(block.reduce((m, v) => Math.abs(v) > Math.abs(m) ? v : m, 0) / -8);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    const quant = (i: number) =>
      Math.min(15, Math.trunc(Math.fround(Math.fround(block[i]! * inverse) + 8.5)));
    view.setFloat16(to, scale, true);
    for (let i = 0; i < HALF; i++) bytes[to + 2 + i] = quant(i) | quant(i + HALF) << 4;
  }
  return bytes;
}

/** @source ggml's `block_q4_0` and `dequantize_row_q4_0`. */
export const q4_0: WeightType = {
  block_values: VALUES,
  block_bytes: 2 + HALF,
  planes: [
    { name: "values", dtype: "u32", block_elements: HALF / 4 },
    { name: "scales", dtype: "f32", block_elements: 1 },
  ],
  repack(bytes) {
    const { scales, rest } = splitScaledBlocks(bytes, HALF);
    return [rest, scales];
  },
  decode(bytes) {
    const { scales, rest } = splitScaledBlocks(bytes, HALF);
    const values = new Float32Array(scales.length * VALUES);
    for (let i = 0; i < rest.length; i++) {
      const block = Math.floor(i / HALF), at = block * VALUES + i % HALF;
      values[at] = scales[block]! * ((rest[i]! & 15) - 8);
      values[at + HALF] = scales[block]! * ((rest[i]! >> 4) - 8);
    }
    return values;
  },
  encode,
  wgsl: { file: "weights/q4_0.wgsl", text: wgsl },
};
