/** The tensor types of GGUF files: values and bytes of a block, and what blocks stand for. */

import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES, type WeightTypeName } from "../../kernels/weights/table.ts";

/** A type that `decodeTensor` can decode: one of the table of weights, by its GGUF name. */
export type DecodedType = Uppercase<WeightTypeName>;

/** All types that a model file may have, in the order of the table of weights. */
export const DECODED_TYPES = WEIGHT_TYPE_NAMES.map((name) => name.toUpperCase() as DecodedType);

/** A tensor type of GGUF. Rows are stored one after the other as complete blocks. */
export interface GgmlType {
  /** The number in the file. */
  id: number;
  name: string;
  block_values: number;
  block_bytes: number;
}

/** @source ggml's `type_traits`: all types that a file may contain, decoded here or not. */
const TABLE: readonly (readonly [id: number, name: string, block_values: number, block_bytes: number])[] = [
  [0, "F32", 1, 4],
  [1, "F16", 1, 2],
  [2, "Q4_0", 32, 18],
  [3, "Q4_1", 32, 20],
  [6, "Q5_0", 32, 22],
  [7, "Q5_1", 32, 24],
  [8, "Q8_0", 32, 34],
  [9, "Q8_1", 32, 36],
  [10, "Q2_K", 256, 84],
  [11, "Q3_K", 256, 110],
  [12, "Q4_K", 256, 144],
  [13, "Q5_K", 256, 176],
  [14, "Q6_K", 256, 210],
  [15, "Q8_K", 256, 292],
  [16, "IQ2_XXS", 256, 66],
  [17, "IQ2_XS", 256, 74],
  [18, "IQ3_XXS", 256, 98],
  [19, "IQ1_S", 256, 50],
  [20, "IQ4_NL", 32, 18],
  [21, "IQ3_S", 256, 110],
  [22, "IQ2_S", 256, 82],
  [23, "IQ4_XS", 256, 136],
  [24, "I8", 1, 1],
  [25, "I16", 1, 2],
  [26, "I32", 1, 4],
  [27, "I64", 1, 8],
  [28, "F64", 1, 8],
  [29, "IQ1_M", 256, 56],
  [30, "BF16", 1, 2],
  [34, "TQ1_0", 256, 54],
  [35, "TQ2_0", 256, 66],
  [39, "MXFP4", 32, 17],
];

const TYPES = TABLE.map(([id, name, block_values, block_bytes]): GgmlType => (
  { id, name, block_values, block_bytes }
));
const BY_ID = new Map(TYPES.map((type) => [type.id, type]));
const BY_NAME = new Map(TYPES.map((type) => [type.name, type]));

/** The type with a number in the file; null when it is unknown. */
export function ggmlTypeById(id: number): GgmlType | null {
  return BY_ID.get(id) ?? null;
}

/** The type with a name such as `Q8_0`. */
export function ggmlType(name: DecodedType): GgmlType {
  return BY_NAME.get(name)!;
}

/** The type's name in the table of weights. */
export function weightTypeName(name: DecodedType): WeightTypeName {
  return name.toLowerCase() as Lowercase<DecodedType>;
}

/** Whether the values of a type can be read. */
export function isDecodedType(name: string): name is DecodedType {
  return (DECODED_TYPES as readonly string[]).includes(name);
}

/** The bytes of a tensor of `shape` (slowest dimension first), whose last dimension consists of complete blocks. */
export function ggmlTensorBytes(type: GgmlType, shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, 1) / type.block_values * type.block_bytes;
}

/** Decodes complete blocks of a tensor: the bits are those of ggml's `dequantize_row_*`. */
export function decodeTensor(type: DecodedType, bytes: Uint8Array): Float32Array<ArrayBuffer> {
  return WEIGHT_TYPES[weightTypeName(type)].decode(bytes);
}
