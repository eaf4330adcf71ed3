/** Single precision, as it is. */

import { alignedBytes } from "../../core/float16.ts";
import wgsl from "./f32.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const PAIRS = `
struct Pair { first: vec4<f32>, second: vec4<f32> }

fn load_pair(i: u32) -> Pair { return Pair(load_weight(2u * i), load_weight(2u * i + 1u)); }
`;

export const f32: WeightType = {
  block_values: 1,
  block_bytes: 4,
  planes: [{ name: "values", dtype: "f32", block_elements: 1 }],
  repack: (bytes) => [bytes],
  decode(bytes) {
    const aligned = alignedBytes(bytes, 4);
    return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4).slice();
  },
  wgsl: { file: "weights/f32.wgsl", text: wgsl },
  pairs_wgsl: { file: "weights/f32.wgsl", text: wgsl + PAIRS },
};
