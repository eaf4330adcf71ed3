/**
 * What Q4_0, Q4_1, Q5_0 and Q5_1 share: blocks of 32 values. A block begins with a scale d in half precision and, where
 * `w = d·q + m`, with m; otherwise `w = d·(q − 2^(bits − 1))`. With five bits, 4 bytes follow that hold the highest bits:
 * bit i is that of element i. Then come 16 bytes: byte j has the low four bits of element j in its low half and those of
 * element j + 16 in its high half.
 */

import { copyWords, PlaneArrays, widenedHalves, wordsOf } from "./block_words.ts";
import type { WeightType } from "./weight_type.ts";

const VALUES = 32, HALF = VALUES / 2;

/** Words of the low bits. */
const LOW_WORDS = HALF / 4;

/** How q is stored, and whether a block has a smallest value m. */
export interface NibbleForm {
  bits: 4 | 5;
  has_min: boolean;
}

/** The words after the heads of all blocks, and the bits of the heads' numbers, widened. */
type Split = [values: Uint32Array<ArrayBuffer>, scales: Uint32Array<ArrayBuffer>];

/**
 * Takes blocks of d and so many words apart, two at a time without inner loops: the first one begins with a word, the second
 * in one. Block by block it takes about twice as long.
 */
function splitScaled(bytes: Uint8Array, words: number, arrays: PlaneArrays): Split {
  const from = wordsOf(bytes), widened = widenedHalves(), blocks = bytes.length / (2 + 4 * words);
  const to = arrays.words(0, blocks * words), scales = arrays.words(1, blocks), pairs = blocks >> 1;
  const has_high_bits = words > LOW_WORDS;
  let w = 0, r = 0;
  for (let pair = 0; pair < pairs; pair++) {
    let a = from[w]!;
    scales[2 * pair] = widened[a & 0xffff]!;
    if (has_high_bits) {
      const next = from[++w]!;
      to[r++] = a >>> 16 | next << 16;
      a = next;
    }
    const b = from[w + 1]!, c = from[w + 2]!, d = from[w + 3]!, e = from[w + 4]!;
    to[r] = a >>> 16 | b << 16;
    to[r + 1] = b >>> 16 | c << 16;
    to[r + 2] = c >>> 16 | d << 16;
    to[r + 3] = d >>> 16 | e << 16;
    scales[2 * pair + 1] = widened[e >>> 16]!;
    to[r + 4] = from[w + 5]!;
    to[r + 5] = from[w + 6]!;
    to[r + 6] = from[w + 7]!;
    to[r + 7] = from[w + 8]!;
    w += 9;
    r += 8;
    if (has_high_bits) to[r++] = from[w++]!;
  }
  if (blocks % 2 === 1) {
    scales[blocks - 1] = widened[from[w]! & 0xffff]!;
    copyWords(from, 2 * w + 1, [to, r, words]);
  }
  return [to, scales];
}

/** Takes blocks of d, m and so many words apart. All begin with a word. */
function splitWithMin(bytes: Uint8Array, words: number, arrays: PlaneArrays): Split {
  const from = wordsOf(bytes), widened = widenedHalves(), blocks = bytes.length / (4 + 4 * words);
  const to = arrays.words(0, blocks * words), scales = arrays.words(1, 2 * blocks);
  const has_high_bits = words > LOW_WORDS;
  for (let s = 0, w = 0, r = 0; s < scales.length; s += 2) {
    const head = from[w]!;
    scales[s] = widened[head & 0xffff]!;
    scales[s + 1] = widened[head >>> 16]!;
    to[r] = from[w + 1]!;
    to[r + 1] = from[w + 2]!;
    to[r + 2] = from[w + 3]!;
    to[r + 3] = from[w + 4]!;
    w += 5;
    r += 4;
    if (has_high_bits) to[r++] = from[w++]!;
  }
  return [to, scales];
}

/** A type with so many bits, with or without m. */
export function nibbleBlocks({ bits, has_min }: NibbleForm): Omit<WeightType, "wgsl"> {
  const middle = 2 ** (bits - 1);
  const head_count = has_min ? 2 : 1, low_at = bits === 5 ? 4 : 0;
  const head_bytes = 2 * head_count, rest_bytes = low_at + HALF, block_bytes = head_bytes + rest_bytes;

  function repack(bytes: Uint8Array, arrays: PlaneArrays): [Uint8Array, Float32Array] {
    const [values, scales] = (has_min ? splitWithMin : splitScaled)(bytes, rest_bytes / 4, arrays);
    return [
      new Uint8Array(values.buffer, 0, values.byteLength),
      new Float32Array(scales.buffer, 0, scales.length),
    ];
  }

  function decode(bytes: Uint8Array): Float32Array<ArrayBuffer> {
    const [rest, scales] = repack(bytes, new PlaneArrays());
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
    repack,
    decode,
  };
}
