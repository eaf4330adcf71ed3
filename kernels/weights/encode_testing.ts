/** Encoders of all types of weights: values as the bytes of a file. Only tests, benches and scripts need them. */

import { encodeK, encodeQ6K } from "./k_blocks_testing.ts";
import { encodeNibbles } from "./nibble_blocks_testing.ts";
import type { WeightTypeName } from "./table.ts";

type Encoder = (values: Float32Array) => Uint8Array<ArrayBuffer>;

const Q8_VALUES = 32;

/** Rounds to the nearest bfloat16, ties to even; NaN stays NaN. */
function encodeBf16(values: Float32Array): Uint8Array<ArrayBuffer> {
  const words = new Uint32Array(Float32Array.from(values).buffer);
  const halves = new Uint16Array(words.length);
  for (let i = 0; i < words.length; i++) {
    const word = words[i]!;
    if ((word & 0x7fffffff) > 0x7f800000) halves[i] = word >>> 16 | 0x40;
    else halves[i] = (word + 0x7fff + (word >>> 16 & 1)) >>> 16;
  }
  return new Uint8Array(halves.buffer);
}

/**
 * `d = max|x| / 127`, `q = round(x / d)` with halves away from zero, all in single precision.
 *
 * @source ggml's `quantize_row_q8_0_ref`.
 */
function encodeQ8(values: Float32Array): Uint8Array<ArrayBuffer> {
  const blocks = values.length / Q8_VALUES;
  const bytes = new Uint8Array(blocks * (2 + Q8_VALUES));
  const view = new DataView(bytes.buffer);
  for (let block = 0, from = 0, to = 0; block < blocks; block++) {
    let largest = 0;
    for (let i = 0; i < Q8_VALUES; i++) largest = Math.max(largest, Math.abs(values[from + i]!));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    view.setFloat16(to, scale, true);
    to += 2;
    for (let i = 0; i < Q8_VALUES; i++) {
      const scaled = Math.fround(values[from++]! * inverse);
      view.setInt8(to++, Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5));
    }
  }
  return bytes;
}

const ENCODERS: Readonly<Record<WeightTypeName, Encoder>> = {
  f32: (values) => new Uint8Array(values.slice().buffer),
  // Rounds to the nearest, ties to even. Values beyond 65,504 become infinite.
  f16: (values) => new Uint8Array(new Float16Array(values).buffer),
  bf16: encodeBf16,
  q4_0: (values) => encodeNibbles(values, { bits: 4, has_min: false }),
  q4_1: (values) => encodeNibbles(values, { bits: 4, has_min: true }),
  q5_0: (values) => encodeNibbles(values, { bits: 5, has_min: false }),
  q5_1: (values) => encodeNibbles(values, { bits: 5, has_min: true }),
  q8_0: encodeQ8,
  q4_k: (values) => encodeK(values, 4),
  q5_k: (values) => encodeK(values, 5),
  q6_k: encodeQ6K,
};

/** Values of complete blocks, rounded to the type, as the bytes of a file. */
export function encodeWeight(type: WeightTypeName, values: Float32Array): Uint8Array<ArrayBuffer> {
  return ENCODERS[type](values);
}
