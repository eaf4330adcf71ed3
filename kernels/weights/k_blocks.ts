/**
 * What Q4_K and Q5_K share: blocks of 256 values in 8 parts of 32, `w = d·scale·q − d_min·min`. A block begins with d
 * and d_min in half precision and 12 bytes that hold 6 bits of each part's scale and min.
 */

import { copyWords, PlaneArrays, widenedHalves, wordsOf } from "./block_words.ts";
import type { WeightType } from "./weight_type.ts";

const K_VALUES = 256;
const PART = 32, PAIRS = 4;

/** Words of a block's head in a file: d with d_min, then the packed scales and mins. */
const HEAD_WORDS = 4;

/** Words of a block's scales on the device: d, d_min, and one for each pair of parts. */
const SCALE_WORDS = 2 + PAIRS;

/**
 * The words (scale, min, scale, min) of each pair of parts, one byte each, out of a block's 12 bytes, written to
 * `to[at …]`. Of the 12 bytes 0 … 3 have the scales of parts 0 … 3 in their low 6 bits, 4 … 7 their mins; 8 … 11 have
 * the low 4 bits of parts 4 … 7, scale below and min above; the upper 2 bits of bytes 0 … 7 are those parts' rest.
 *
 * @source ggml's `get_scale_min_k4`.
 */
function unpackFactors(packed: Uint32Array, from: number, to: Uint32Array, at: number): void {
  const a = packed[from]!, b = packed[from + 1]!, c = packed[from + 2]!;
  const scales = [a & 0x3f3f3f3f, (c & 0x0f0f0f0f) | (a >>> 2 & 0x30303030)];
  const mins = [b & 0x3f3f3f3f, (c >>> 4 & 0x0f0f0f0f) | (b >>> 2 & 0x30303030)];
  for (let pair = 0; pair < PAIRS; pair++) {
    const shift = 16 * (pair & 1), scale = scales[pair >> 1]! >>> shift, min = mins[pair >> 1]! >>> shift;
    to[at + pair] = (scale & 255) | (min & 255) << 8 | (scale & 0xff00) << 8 | (min & 0xff00) << 16;
  }
}

/** The planes of blocks whose head is followed by `rest_words`, which are kept as they lie. */
function repackK(
  bytes: Uint8Array,
  rest_words: number,
  arrays: PlaneArrays,
): [Uint32Array<ArrayBuffer>, Uint32Array<ArrayBuffer>] {
  const from = wordsOf(bytes), widened = widenedHalves(), words = HEAD_WORDS + rest_words;
  const blocks = from.length / words;
  const values = arrays.words(0, blocks * rest_words), scales = arrays.words(1, blocks * SCALE_WORDS);
  for (let block = 0; block < blocks; block++) {
    const at = block * words, to = block * SCALE_WORDS, head = from[at]!;
    scales[to] = widened[head & 0xffff]!;
    scales[to + 1] = widened[head >>> 16]!;
    unpackFactors(from, at + 1, scales, to + 2);
    copyWords(from, 2 * (at + HEAD_WORDS), [values, block * rest_words, rest_words]);
  }
  return [values, scales];
}

/** The values of repacked blocks. `quant(rest, part, i)` is q of element i of a part, out of a block's bytes. */
function decodeK(
  [words, scales]: readonly [Uint32Array, Uint32Array],
  quant: (rest: Uint8Array, part: number, i: number) => number,
): Float32Array<ArrayBuffer> {
  const blocks = scales.length / SCALE_WORDS, values = new Float32Array(blocks * K_VALUES);
  const block_bytes = words.byteLength / blocks, factors = new Uint8Array(scales.buffer);
  const floats = new Float32Array(scales.buffer);
  for (let block = 0, to = 0; block < blocks; block++) {
    const at = block * SCALE_WORDS, rest = new Uint8Array(words.buffer, block * block_bytes, block_bytes);
    for (let part = 0; part < K_VALUES / PART; part++) {
      const factor = 4 * (at + 2) + 2 * part;
      const scale = floats[at]! * factors[factor]!, min = floats[at + 1]! * factors[factor + 1]!;
      // Products have at most 22 bits, so only the difference is rounded, as in single precision.
      for (let i = 0; i < PART; i++) values[to++] = scale * quant(rest, part, i) - min;
    }
  }
  return values;
}

/** A type whose q have so many bits; `quant(rest, part, i)` is q of element i of a part, from the bytes after the head. */
export function kBlocks(
  bits: 4 | 5,
  quant: (rest: Uint8Array, part: number, i: number) => number,
): Omit<WeightType, "wgsl"> {
  const rest_words = K_VALUES * bits / 32;
  return {
    block_values: K_VALUES,
    block_bytes: 4 * (HEAD_WORDS + rest_words),
    planes: [
      { name: "values", dtype: "u32", block_elements: rest_words },
      { name: "scales", dtype: "u32", block_elements: SCALE_WORDS },
    ],
    repack: (bytes, arrays) => repackK(bytes, rest_words, arrays),
    decode: (bytes) => decodeK(repackK(bytes, rest_words, new PlaneArrays()), quant),
  };
}
