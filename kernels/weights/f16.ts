/** Half precision. */

import { float32FromFloat16 } from "../../core/float16.ts";
import wgsl from "./f16.wgsl" with { type: "text" };
import pairsWgsl from "./f16_pairs.wgsl" with { type: "text" };
import f16Wgsl from "./f16_vectors.wgsl" with { type: "text" };
import { f32 } from "./f32.ts";
import type { WeightType } from "./weight_type.ts";

export const f16: WeightType = {
  block_values: 1,
  block_bytes: 2,
  planes: [{ name: "values", dtype: "f16", block_elements: 1 }],
  repack: (bytes) => [bytes],
  decode: float32FromFloat16,
  wgsl: { file: "weights/f16.wgsl", text: wgsl },
  pairs_wgsl: { file: "weights/f16_pairs.wgsl", text: pairsWgsl },
  f16_wgsl: { file: "weights/f16_vectors.wgsl", text: f16Wgsl },
  // A texture gives its halves as f32.
  halves_wgsl: f32.wgsl,
};
