/** `w = d·q`: blocks of 32 with a half-precision scale d, then 32 signed bytes q. */

import { PlaneArrays } from "./block_words.ts";
import { splitScaledBlocks } from "./scaled_blocks.ts";
import wgsl from "./q8_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 32;
const FORM = { head_count: 1, rest_bytes: VALUES };

/** @source ggml's `block_q8_0` and `dequantize_row_q8_0`. */
export const q8_0: WeightType = {
  block_values: VALUES,
  block_bytes: 2 + VALUES,
  planes: [
    { name: "values", dtype: "i8", block_elements: VALUES },
    { name: "scales", dtype: "f32", block_elements: 1 },
  ],
  repack(bytes, arrays) {
    const { scales, rest } = splitScaledBlocks(bytes, FORM, arrays);
    return [rest, scales];
  },
  decode(bytes) {
    const { scales, rest } = splitScaledBlocks(bytes, FORM, new PlaneArrays());
    return Float32Array.from(new Int8Array(rest.buffer), (q, i) => scales[Math.floor(i / VALUES)]! * q);
  },
  wgsl: { file: "weights/q8_0.wgsl", text: wgsl },
};
