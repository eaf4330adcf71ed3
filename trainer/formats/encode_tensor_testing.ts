/** Makes tensors for tests, benches and scripts. */

import { assert } from "../../core/errors.ts";
import { encodeWeight } from "../../kernels/weights/encode_testing.ts";
import { type DecodedType, ggmlType, weightTypeName } from "./ggml_types.ts";

/** Encodes complete blocks of floats. */
export function encodeTensor(type: DecodedType, values: Float32Array): Uint8Array<ArrayBuffer> {
  const { block_values } = ggmlType(type);
  assert(values.length % block_values === 0, `${type} holds whole blocks of ${block_values} values`);
  return encodeWeight(weightTypeName(type), values);
}
