/** Writes GGUF files of version 3, tensors piece by piece. The final name appears only when the file is complete. */

import { assert } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { type DecodedType, ggmlTensorBytes, ggmlType } from "./ggml_types.ts";
import {
  ARRAY_TYPE_ID,
  DEFAULT_ALIGNMENT,
  type GgufMetadata,
  type GgufValue,
  MAX_TENSOR_NAME_BYTES,
  NUMBER_TYPES,
  STRING_TYPE_ID,
} from "./gguf_values.ts";

/** A tensor to write. Its pieces together have exactly the bytes of its type and shape. */
export interface GgufTensorSource {
  name: string;
  type: DecodedType;
  /** Row-major, slowest dimension first. */
  shape: readonly number[];
  pieces: () => Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
}

export interface GgufContent {
  metadata: GgufMetadata;
  tensors: readonly GgufTensorSource[];
}

/**
 * Writes a GGUF file atomically. A failure leaves an existing file at `path` unchanged.
 *
 * @param verify Reads the written file back before it gets its name; an error that it throws fails the write.
 */
export async function writeGguf(
  path: string,
  content: GgufContent,
  verify?: (partial_path: string) => Promise<void>,
): Promise<void> {
  await writeFileAtomic(path, encodeGguf(content), verify);
}

/** The bytes of a GGUF file before the tensors' values; all bytes of a file without tensors. */
export function encodeGgufHeader(
  metadata: GgufMetadata,
  tensors: readonly Omit<GgufTensorSource, "pieces">[],
): Uint8Array {
  return concatBytes([...encodeHeader(metadata, tensors, DEFAULT_ALIGNMENT)]);
}

/** The bytes of a GGUF file in pieces. */
export async function* encodeGguf({ metadata, tensors }: GgufContent): AsyncGenerator<Uint8Array, void> {
  const alignment = metadata.get("general.alignment")?.value ?? DEFAULT_ALIGNMENT;
  assert(typeof alignment === "number", "general.alignment is a number");
  const padding = (length: number) => new Uint8Array((alignment - length % alignment) % alignment);
  const header = concatBytes([...encodeHeader(metadata, tensors, alignment)]);
  yield header;
  yield padding(header.length);
  for (const tensor of tensors) {
    const expected = ggmlTensorBytes(ggmlType(tensor.type), tensor.shape);
    let written = 0;
    for await (const piece of tensor.pieces()) {
      written += piece.length;
      yield piece;
    }
    assert(written === expected, `${tensor.name} takes ${expected} bytes, but its pieces had ${written}`);
    yield padding(written);
  }
}

function* encodeHeader(
  metadata: GgufMetadata,
  tensors: readonly Omit<GgufTensorSource, "pieces">[],
  alignment: number,
): Generator<Uint8Array, void> {
  yield new TextEncoder().encode("GGUF");
  yield u32(3);
  yield u64(tensors.length);
  yield u64(metadata.size);
  for (const [key, value] of metadata) {
    yield text(key);
    yield* encodeValue(value);
  }
  let offset = 0;
  for (const { name, type, shape } of tensors) {
    const encoded = text(name), { id } = ggmlType(type), bytes = ggmlTensorBytes(ggmlType(type), shape);
    assert(encoded.length - 8 <= MAX_TENSOR_NAME_BYTES, `the tensor name ${name} is short enough`);
    assert(Number.isInteger(bytes), `${name} is made of whole blocks of ${type}`);
    yield encoded;
    yield u32(shape.length);
    for (const size of shape.toReversed()) yield u64(size);
    yield u32(id);
    yield u64(offset);
    offset += Math.ceil(bytes / alignment) * alignment;
  }
}

function* encodeValue(entry: GgufValue): Generator<Uint8Array, void> {
  if (entry.type === "string") {
    yield u32(STRING_TYPE_ID);
    yield text(entry.value);
    return;
  }
  if (entry.type !== "array") {
    const { id, array } = NUMBER_TYPES[entry.type];
    yield u32(id);
    yield new Uint8Array(array.of(entry.value as never).buffer);
    return;
  }
  yield u32(ARRAY_TYPE_ID);
  yield u32(entry.item_type === "string" ? STRING_TYPE_ID : NUMBER_TYPES[entry.item_type].id);
  yield u64(entry.value.length);
  if (entry.item_type === "string") yield* entry.value.map(text);
  else yield new Uint8Array(entry.value.buffer, entry.value.byteOffset, entry.value.byteLength);
}

function concatBytes(pieces: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

function u64(value: number): Uint8Array {
  return new Uint8Array(BigUint64Array.of(BigInt(value)).buffer);
}

function text(value: string): Uint8Array {
  const bytes = new TextEncoder().encode(value);
  const whole = new Uint8Array(8 + bytes.length);
  whole.set(u64(bytes.length));
  whole.set(bytes, 8);
  return whole;
}
