/** Floats to the bytes of a tensor type, and back. */

import { assert } from "../../core/errors.ts";
import { WEIGHT_TYPES } from "../../kernels/weights/table.ts";
import { type DecodedType, ggmlType, weightTypeName } from "./ggml_types.ts";

/** Whole blocks of a tensor to floats: the bits that ggml's `dequantize_row_*` gives. */
export function decodeTensor(type: DecodedType, bytes: Uint8Array): Float32Array<ArrayBuffer> {
  return WEIGHT_TYPES[weightTypeName(type)].decode(bytes);
}

/** Floats, whole blocks of them, to the bytes of a tensor. */
export function encodeTensor(type: DecodedType, values: Float32Array): Uint8Array<ArrayBuffer> {
  const { block_values } = ggmlType(type);
  assert(values.length % block_values === 0, `${type} holds whole blocks of ${block_values} values`);
  return WEIGHT_TYPES[weightTypeName(type)].encode(values);
}
