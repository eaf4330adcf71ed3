/** `w = d·q`: blocks of 32 with a half-precision scale d, then 32 signed bytes q. */

import { copyWords, halfAt, PlaneArrays, widenedHalves, wordsOf } from "./block_words.ts";
import wgsl from "./q8_0.wgsl" with { type: "text" };
import type { WeightType } from "./weight_type.ts";

const VALUES = 32;

/** Words of a block's bytes, and of two blocks with their scales: the first one begins with a word, the second in one. */
const WORDS = VALUES / 4, PAIR_WORDS = 2 * WORDS + 1;

/** Takes blocks apart, two at a time without inner loops. Block by block it takes twice as long. */
function repack(bytes: Uint8Array, arrays: PlaneArrays): [Uint8Array<ArrayBuffer>, Float32Array] {
  const from = wordsOf(bytes), widened = widenedHalves(), blocks = bytes.length / (2 + VALUES);
  const to = arrays.words(0, blocks * WORDS), scales = arrays.words(1, blocks), pairs = blocks >> 1;
  for (let pair = 0, w = 0, r = 0; pair < pairs; pair++, w += PAIR_WORDS, r += 2 * WORDS) {
    const a = from[w]!, b = from[w + 1]!, c = from[w + 2]!, d = from[w + 3]!, e = from[w + 4]!;
    const f = from[w + 5]!, g = from[w + 6]!, h = from[w + 7]!, i = from[w + 8]!;
    scales[2 * pair] = widened[a & 0xffff]!;
    to[r] = a >>> 16 | b << 16;
    to[r + 1] = b >>> 16 | c << 16;
    to[r + 2] = c >>> 16 | d << 16;
    to[r + 3] = d >>> 16 | e << 16;
    to[r + 4] = e >>> 16 | f << 16;
    to[r + 5] = f >>> 16 | g << 16;
    to[r + 6] = g >>> 16 | h << 16;
    to[r + 7] = h >>> 16 | i << 16;
    scales[2 * pair + 1] = widened[i >>> 16]!;
    to[r + 8] = from[w + 9]!;
    to[r + 9] = from[w + 10]!;
    to[r + 10] = from[w + 11]!;
    to[r + 11] = from[w + 12]!;
    to[r + 12] = from[w + 13]!;
    to[r + 13] = from[w + 14]!;
    to[r + 14] = from[w + 15]!;
    to[r + 15] = from[w + 16]!;
  }
  if (blocks % 2 === 1) {
    const last = blocks - 1, half = last * (1 + 2 * WORDS);
    scales[last] = widened[halfAt(from, half)]!;
    copyWords(from, half + 1, [to, last * WORDS, WORDS]);
  }
  return [new Uint8Array(to.buffer, 0, to.byteLength), new Float32Array(scales.buffer, 0, scales.length)];
}

/** @source ggml's `block_q8_0` and `dequantize_row_q8_0`. */
export const q8_0: WeightType = {
  block_values: VALUES,
  block_bytes: 2 + VALUES,
  planes: [
    { name: "values", dtype: "i8", block_elements: VALUES },
    { name: "scales", dtype: "f32", block_elements: 1 },
  ],
  repack,
  decode(bytes) {
    const [values, scales] = repack(bytes, new PlaneArrays());
    return Float32Array.from(new Int8Array(values.buffer), (q, i) => scales[Math.floor(i / VALUES)]! * q);
  },
  wgsl: { file: "weights/q8_0.wgsl", text: wgsl },
};
