/** Converts between floats and the bytes of a tensor type. */

import { assert } from "../../core/errors.ts";
import { WEIGHT_TYPES } from "../../kernels/weights/table.ts";
import { type DecodedType, ggmlType, weightTypeName } from "./ggml_types.ts";

/** Decodes complete blocks of a tensor: the bits are those of ggml's `dequantize_row_*`. */
export function decodeTensor(type: DecodedType, bytes: Uint8Array): Float32Array<ArrayBuffer> {
  return WEIGHT_TYPES[weightTypeName(type)].decode(bytes);
}

/** Encodes complete blocks of floats. */
export function encodeTensor(type: DecodedType, values: Float32Array): Uint8Array<ArrayBuffer> {
  const { block_values } = ggmlType(type);
  assert(values.length % block_values === 0, `${type} holds whole blocks of ${block_values} values`);
  return WEIGHT_TYPES[weightTypeName(type)].encode(values);
}
