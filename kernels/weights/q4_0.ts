/** `w = d·(q − 8)` with four bits, in blocks of 32. */

import { nibbleBlocks } from "./nibble_blocks.ts";
import wgsl from "./q4_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q4_0` and `dequantize_row_q4_0`. */
export const q4_0: WeightType = {
  ...nibbleBlocks({ bits: 4, has_min: false }),
  wgsl: { file: "weights/q4_0.wgsl", text: wgsl },
};
