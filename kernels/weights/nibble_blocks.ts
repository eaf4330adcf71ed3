/**
 * What Q4_0, Q4_1, Q5_0 and Q5_1 share: blocks of 32 values. A block begins with a scale d in half precision and, where
 * `w = d·q + m`, with m; otherwise `w = d·(q − 2^(bits − 1))`. With five bits, 4 bytes follow that hold the highest bits:
 * bit i is that of element i. Then come 16 bytes: byte j has the low four bits of element j in its low half and those of
 * element j + 16 in its high half.
 */

import { PlaneArrays } from "./block_words.ts";
import { splitScaledBlocks } from "./scaled_blocks.ts";
import type { WeightType } from "./weight_type.ts";

const VALUES = 32, HALF = VALUES / 2;

/** How q is stored, and whether a block has a smallest value m. */
export interface NibbleForm {
  bits: 4 | 5;
  has_min: boolean;
}

/** A type with so many bits, with or without m. */
export function nibbleBlocks({ bits, has_min }: NibbleForm): Omit<WeightType, "wgsl"> {
  const middle = 2 ** (bits - 1);
  const head_count = has_min ? 2 : 1, low_at = bits === 5 ? 4 : 0;
  const head_bytes = 2 * head_count, rest_bytes = low_at + HALF, block_bytes = head_bytes + rest_bytes;

  function decode(bytes: Uint8Array): Float32Array<ArrayBuffer> {
    const { scales, rest } = splitScaledBlocks(bytes, { head_count, rest_bytes }, new PlaneArrays());
    const values = new Float32Array(bytes.length / block_bytes * VALUES);
    for (let to = 0; to < values.length; to++) {
      const block = Math.floor(to / VALUES), i = to % VALUES, at = block * rest_bytes;
      const low = rest[at + low_at + i % HALF]! >> (i < HALF ? 0 : 4) & 15;
      const q = bits === 5 ? low | (rest[at + (i >> 3)]! >> (i & 7) & 1) << 4 : low;
      const scale = scales[block * head_count]!;
      // Products have at most 16 bits, so only the sum is rounded, as in single precision.
      values[to] = has_min ? scale * q + scales[block * head_count + 1]! : scale * (q - middle);
    }
    return values;
  }

  return {
    block_values: VALUES,
    block_bytes,
    planes: [
      { name: "values", dtype: "u32", block_elements: rest_bytes / 4 },
      { name: "scales", dtype: "f32", block_elements: head_count },
    ],
    repack(bytes, arrays) {
      const { scales, rest } = splitScaledBlocks(bytes, { head_count, rest_bytes }, arrays);
      return [rest, scales];
    },
    decode,
  };
}
