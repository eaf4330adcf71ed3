/** Blocks of one or two half-precision numbers, a scale and a smallest value, with a fixed number of bytes after them. */

import { copyWords, halfAt, type PlaneArrays, widenedHalves, wordsOf } from "./block_words.ts";

/** How a block is laid out; `rest_bytes` is a multiple of 4. */
interface ScaledForm {
  /** Half-precision numbers at the start. */
  head_count: number;
  rest_bytes: number;
}

/** The numbers at the start of every block, widened, and the bytes after them. */
export interface ScaledBlocks {
  scales: Float32Array<ArrayBuffer>;
  rest: Uint8Array<ArrayBuffer>;
}

/** Takes blocks apart. */
export function splitScaledBlocks(
  bytes: Uint8Array,
  { head_count, rest_bytes }: ScaledForm,
  arrays: PlaneArrays,
): ScaledBlocks {
  const from = wordsOf(bytes),
    widened = widenedHalves(),
    count = rest_bytes / 4,
    step = head_count + 2 * count;
  const blocks = bytes.length / (2 * step);
  const rest = arrays.words(0, blocks * count), scales = arrays.words(1, blocks * head_count);
  for (let block = 0; block < blocks; block++) {
    const half = block * step;
    for (let i = 0; i < head_count; i++) scales[block * head_count + i] = widened[halfAt(from, half + i)]!;
    copyWords(from, half + head_count, [rest, block * count, count]);
  }
  return {
    scales: new Float32Array(scales.buffer, 0, scales.length),
    rest: new Uint8Array(rest.buffer, 0, rest.byteLength),
  };
}
