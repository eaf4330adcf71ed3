/** The upper half of single precision. */

import { float32FromBfloat16 } from "../../core/float16.ts";
import wgsl from "./bf16.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

export const bf16: WeightType = {
  block_values: 1,
  block_bytes: 2,
  planes: [{ name: "values", dtype: "bf16", block_elements: 1 }],
  repack: (bytes) => [bytes],
  decode: float32FromBfloat16,
  wgsl: { file: "weights/bf16.wgsl", text: wgsl },
};
