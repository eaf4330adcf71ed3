/**
 * `w = d·scale·q − d_min·min` for blocks of 256. After the head come 128 bytes: 32 for each two parts, the first part's
 * q in the low half of a byte, the second's in the high half.
 */

import { kBlocks } from "./k_blocks.ts";
import wgsl from "./q4_k.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q4_K` and `dequantize_row_q4_K`. */
export const q4_k: WeightType = {
  ...kBlocks(4, (rest, part, i) => rest[32 * (part >> 1) + i]! >> 4 * (part & 1) & 15),
  wgsl: { file: "weights/q4_k.wgsl", text: wgsl },
};
