/**
 * `w = d·scale·q − d_min·min` for blocks of 256. After the head come 32 bytes of highest bits, bit p of byte i of part p
 * and its element i; then the low bits as in Q4_K.
 */

import { kBlocks } from "./k_blocks.ts";
import wgsl from "./q5_k.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q5_K` and `dequantize_row_q5_K`. */
export const q5_k: WeightType = {
  ...kBlocks(5, (rest, part, i) => {
    const low = rest[32 + 32 * (part >> 1) + i]! >> 4 * (part & 1) & 15;
    return low | (rest[i]! >> part & 1) << 4;
  }),
  wgsl: { file: "weights/q5_k.wgsl", text: wgsl },
};
