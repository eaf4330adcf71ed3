/** `w = d·q + m` with four bits, in blocks of 32. */

import { nibbleBlocks } from "./nibble_blocks.ts";
import wgsl from "./q4_1.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q4_1` and `dequantize_row_q4_1`. */
export const q4_1: WeightType = {
  ...nibbleBlocks({ bits: 4, has_min: true }),
  wgsl: { file: "weights/q4_1.wgsl", text: wgsl },
};
