/** The metadata of GGUF files as plain data, and limits on files. */

/** The most metadata entries of a file. */
export const MAX_METADATA_ENTRIES = 65_536;
/** The most tensors of a file. */
export const MAX_TENSORS = 65_536;
/** The longest metadata key in bytes, from the format's specification. */
export const MAX_KEY_BYTES = 65_535;
/** The longest string value in bytes; a chat template takes some tens of thousands. */
export const MAX_STRING_BYTES = 1 << 24;
/** The most items of an array; the largest vocabularies have some hundred thousand tokens. */
export const MAX_ARRAY_ITEMS = 1 << 22;
/** The longest tensor name in bytes, from the format's specification. */
export const MAX_TENSOR_NAME_BYTES = 64;
/** The most dimensions of a tensor. */
export const MAX_DIMENSIONS = 4;
/** The largest alignment of tensor data in bytes. */
export const MAX_ALIGNMENT = 65_536;
/** The largest header (metadata and tensor list) in bytes. */
export const MAX_HEADER_BYTES = 1 << 28;

export const DEFAULT_ALIGNMENT = 32;

/** The item types of arrays of numbers, by their number in the file. */
export const NUMBER_TYPES = {
  uint8: { id: 0, array: Uint8Array },
  int8: { id: 1, array: Int8Array },
  uint16: { id: 2, array: Uint16Array },
  int16: { id: 3, array: Int16Array },
  uint32: { id: 4, array: Uint32Array },
  int32: { id: 5, array: Int32Array },
  float32: { id: 6, array: Float32Array },
  bool: { id: 7, array: Uint8Array },
  uint64: { id: 10, array: BigUint64Array },
  int64: { id: 11, array: BigInt64Array },
  float64: { id: 12, array: Float64Array },
} as const;

export const STRING_TYPE_ID = 8;
export const ARRAY_TYPE_ID = 9;

export type NumberType = keyof typeof NUMBER_TYPES;
export type NumberArray = InstanceType<typeof NUMBER_TYPES[NumberType]["array"]>;

/** A metadata value with its type in the file. Arrays of `bool` hold 0 and 1. */
export type GgufValue =
  | { type: Exclude<NumberType, "uint64" | "int64" | "bool">; value: number }
  | { type: "uint64" | "int64"; value: bigint }
  | { type: "bool"; value: boolean }
  | { type: "string"; value: string }
  | { type: "array"; item_type: "string"; value: string[] }
  | { type: "array"; item_type: NumberType; value: NumberArray };

export type GgufMetadata = Map<string, GgufValue>;
