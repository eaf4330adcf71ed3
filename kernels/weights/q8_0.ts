/** `w = d·q`: blocks of 32 with a half-precision scale d, then 32 signed bytes q. */

import { splitScaledBlocks } from "./scaled_blocks.ts";
import wgsl from "./q8_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 32;

/**
 * `d = max|x| / 127`, `q = round(x / d)` with halves away from zero, all in single precision.
 *
 * @source ggml's `quantize_row_q8_0_ref`.
 */
function encode(values: Float32Array): Uint8Array<ArrayBuffer> {
  const blocks = values.length / VALUES;
  const bytes = new Uint8Array(blocks * (2 + VALUES));
  const view = new DataView(bytes.buffer);
  for (let block = 0, from = 0, to = 0; block < blocks; block++) {
    let largest = 0;
    for (let i = 0; i < VALUES; i++) largest = Math.max(largest, Math.abs(values[from + i]!));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    view.setFloat16(to, scale, true);
    to += 2;
    for (let i = 0; i < VALUES; i++) {
      const scaled = Math.fround(values[from++]! * inverse);
      view.setInt8(to++, Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5));
    }
  }
  return bytes;
}

/** @source ggml's `block_q8_0` and `dequantize_row_q8_0`. */
export const q8_0: WeightType = {
  block_values: VALUES,
  block_bytes: 2 + VALUES,
  planes: [
    { name: "values", dtype: "i8", block_elements: VALUES },
    { name: "scales", dtype: "f32", block_elements: 1 },
  ],
  repack(bytes) {
    const { scales, rest } = splitScaledBlocks(bytes, { head_count: 1, rest_bytes: VALUES });
    return [rest, scales];
  },
  decode(bytes) {
    const { scales, rest } = splitScaledBlocks(bytes, { head_count: 1, rest_bytes: VALUES });
    return Float32Array.from(new Int8Array(rest.buffer), (q, i) => scales[Math.floor(i / VALUES)]! * q);
  },
  encode,
  wgsl: { file: "weights/q8_0.wgsl", text: wgsl },
};
