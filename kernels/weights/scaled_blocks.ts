/** Blocks of one or two half-precision numbers, a scale and a smallest value, with a fixed number of bytes after them. */

import { alignedBytes, float32FromFloat16 } from "../../core/float16.ts";

/** How a block is laid out; `rest_bytes` is even. */
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
export function splitScaledBlocks(bytes: Uint8Array, { head_count, rest_bytes }: ScaledForm): ScaledBlocks {
  const aligned = alignedBytes(bytes, 2), count = rest_bytes / 2;
  const blocks = bytes.length / (2 * head_count + rest_bytes);
  const from = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
  const scales = new Uint16Array(blocks * head_count), rest = new Uint16Array(blocks * count);
  for (let block = 0, at = 0, head = 0, to = 0; block < blocks; block++) {
    for (const end = head + head_count; head < end;) scales[head++] = from[at++]!;
    for (const end = to + count; to < end;) rest[to++] = from[at++]!;
  }
  // Half precision is widened here: a device may take its subnormal numbers for 0.
  return { scales: float32FromFloat16(new Uint8Array(scales.buffer)), rest: new Uint8Array(rest.buffer) };
}
