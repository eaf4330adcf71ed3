/** `w = d·q + m` with five bits, in blocks of 32. */

import { nibbleBlocks } from "./nibble_blocks.ts";
import wgsl from "./q5_1.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q5_1` and `dequantize_row_q5_1`. */
export const q5_1: WeightType = {
  ...nibbleBlocks({ bits: 5, has_min: true }),
  wgsl: { file: "weights/q5_1.wgsl", text: wgsl },
};
