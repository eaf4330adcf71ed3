/** The encoder of Q4_0, Q4_1, Q5_0 and Q5_1, with the bytes of ggml's quantiser. */

import type { NibbleForm } from "./nibble_blocks.ts";

const VALUES = 32, HALF = VALUES / 2;

/** What a block's numbers are rounded with: `q = ⌊(x − subtracted)·inverse + added⌋`, and the block's half-precision head. */
interface Rounding {
  head: number[];
  subtracted: number;
  inverse: number;
  added: number;
}

/**
 * With m: `d = (max − min) / (2^bits − 1)` and m = min. Without: `d = −v / 2^(bits − 1)` of the value v of largest
 * magnitude. All in single precision.
 *
 * @source ggml's `quantize_row_q4_0_ref` and its like for Q4_1, Q5_0 and Q5_1.
 */
function roundingOf(block: Float32Array, { bits, has_min }: NibbleForm): Rounding {
  const inverseOf = (scale: number) => scale === 0 ? 0 : Math.fround(1 / scale);
  if (has_min) {
    const min = block.reduce((m, v) => v < m ? v : m), max = block.reduce((m, v) => v > m ? v : m);
    const scale = Math.fround(Math.fround(max - min) / (2 ** bits - 1));
    return { head: [scale, min], subtracted: min, inverse: inverseOf(scale), added: 0.5 };
  }
  const middle = 2 ** (bits - 1);
  const scale = Math.fround(block.reduce((m, v) => Math.abs(v) > Math.abs(m) ? v : m, 0) / -middle);
  return { head: [scale], subtracted: 0, inverse: inverseOf(scale), added: middle + 0.5 };
}

/** Blocks of so many bits, with or without m. */
export function encodeNibbles(values: Float32Array, form: NibbleForm): Uint8Array<ArrayBuffer> {
  const { bits, has_min } = form, largest = 2 ** bits - 1;
  const head_bytes = has_min ? 4 : 2, low_at = bits === 5 ? 4 : 0, block_bytes = head_bytes + low_at + HALF;
  const bytes = new Uint8Array(values.length / VALUES * block_bytes), view = new DataView(bytes.buffer);
  for (let from = 0, at = 0; from < values.length; from += VALUES, at += block_bytes) {
    const block = values.subarray(from, from + VALUES);
    const { head, subtracted, inverse, added } = roundingOf(block, form);
    head.forEach((half, i) => view.setFloat16(at + 2 * i, half, true));
    const rest = bytes.subarray(at + head_bytes, at + block_bytes);
    block.forEach((value, i) => {
      const scaled = Math.fround(Math.fround(value - subtracted) * inverse);
      const q = Math.min(largest, Math.trunc(Math.fround(scaled + added)));
      rest[low_at + i % HALF]! |= (q & 15) << (i < HALF ? 0 : 4);
      if (bits === 5) rest[i >> 3]! |= q >> 4 << (i & 7);
    });
  }
  return bytes;
}
