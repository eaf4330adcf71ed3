/** `w = d·(q − 16)` with five bits, in blocks of 32. */

import { nibbleBlocks } from "./nibble_blocks.ts";
import wgsl from "./q5_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

/** @source ggml's `block_q5_0` and `dequantize_row_q5_0`. */
export const q5_0: WeightType = {
  ...nibbleBlocks({ bits: 5, has_min: false }),
  wgsl: { file: "weights/q5_0.wgsl", text: wgsl },
};
