/** Floats to the bytes of a tensor type, and back. */

import { assert } from "../../core/errors.ts";
import {
  alignedBytes,
  bfloat16FromFloat32,
  float16FromFloat32,
  float32FromBfloat16,
  float32FromFloat16,
} from "./float16.ts";
import type { DecodedType } from "./ggml_types.ts";

const Q8_0_VALUES = 32;
const Q8_0_BYTES = 34;

/** Whole blocks of a tensor to floats; exact for every type. */
export function decodeTensor(type: DecodedType, bytes: Uint8Array): Float32Array<ArrayBuffer> {
  if (type === "F16") return float32FromFloat16(bytes);
  if (type === "BF16") return float32FromBfloat16(bytes);
  if (type === "Q8_0") return decodeQ8_0(bytes);
  const aligned = alignedBytes(bytes, 4);
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4).slice();
}

/** Floats to the bytes of a tensor; Q8_0 needs a multiple of 32 values. */
export function encodeTensor(type: DecodedType, values: Float32Array): Uint8Array<ArrayBuffer> {
  if (type === "F16") return float16FromFloat32(values);
  if (type === "BF16") return bfloat16FromFloat32(values);
  if (type === "Q8_0") return encodeQ8_0(values);
  return new Uint8Array(values.slice().buffer);
}

/** `x = d·q`: blocks of a half-precision scale d and 32 signed bytes q. */
function decodeQ8_0(bytes: Uint8Array): Float32Array<ArrayBuffer> {
  const blocks = bytes.length / Q8_0_BYTES;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const values = new Float32Array(blocks * Q8_0_VALUES);
  for (let block = 0, from = 0, to = 0; block < blocks; block++) {
    const scale = view.getFloat16(from, true);
    from += 2;
    for (let i = 0; i < Q8_0_VALUES; i++) values[to++] = scale * (bytes[from++]! << 24 >> 24);
  }
  return values;
}

/**
 * `d = max|x| / 127`, `q = round(x / d)` with halves away from zero, all in single precision.
 *
 * @source ggml's `quantize_row_q8_0_ref`.
 */
function encodeQ8_0(values: Float32Array): Uint8Array<ArrayBuffer> {
  assert(values.length % Q8_0_VALUES === 0, "Q8_0 holds whole blocks of 32 values");
  const blocks = values.length / Q8_0_VALUES;
  const bytes = new Uint8Array(blocks * Q8_0_BYTES);
  const view = new DataView(bytes.buffer);
  for (let block = 0, from = 0, to = 0; block < blocks; block++) {
    let largest = 0;
    for (let i = 0; i < Q8_0_VALUES; i++) largest = Math.max(largest, Math.abs(values[from + i]!));
    const scale = Math.fround(largest / 127);
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    view.setFloat16(to, scale, true);
    to += 2;
    for (let i = 0; i < Q8_0_VALUES; i++) {
      const scaled = Math.fround(values[from++]! * inverse);
      view.setInt8(to++, Math.sign(scaled) * Math.floor(Math.abs(scaled) + 0.5));
    }
  }
  return bytes;
}
