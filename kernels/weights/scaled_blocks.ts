/** Blocks of a half-precision scale and a fixed number of bytes behind it. */

import { alignedBytes, float32FromFloat16 } from "../../core/float16.ts";

/** The scales, widened, and the rest of every block. */
export interface ScaledBlocks {
  scales: Float32Array<ArrayBuffer>;
  rest: Uint8Array<ArrayBuffer>;
}

/** Takes blocks apart. `rest_bytes` is even. */
export function splitScaledBlocks(bytes: Uint8Array, rest_bytes: number): ScaledBlocks {
  const aligned = alignedBytes(bytes, 2), count = rest_bytes / 2;
  const blocks = bytes.length / (2 + rest_bytes);
  const from = new Uint16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 2);
  const scales = new Uint16Array(blocks), rest = new Uint16Array(blocks * count);
  for (let block = 0, at = 0, to = 0; block < blocks; block++) {
    scales[block] = from[at++]!;
    for (const end = to + count; to < end;) rest[to++] = from[at++]!;
  }
  // Half precision is widened here: a device may take its subnormal numbers for 0.
  return { scales: float32FromFloat16(new Uint8Array(scales.buffer)), rest: new Uint8Array(rest.buffer) };
}
