/** Parses the header of a GGUF file into metadata and tensors, and checks the tensors' positions against the file. */

import { ggmlTensorBytes, type GgmlType, ggmlTypeById } from "./ggml_types.ts";
import {
  DEFAULT_ALIGNMENT,
  type GgufMetadata,
  MAX_ALIGNMENT,
  MAX_DIMENSIONS,
  MAX_KEY_BYTES,
  MAX_METADATA_ENTRIES,
  MAX_TENSOR_NAME_BYTES,
  MAX_TENSORS,
} from "./gguf_values.ts";
import type { HeaderReader } from "./header_reader.ts";
import { formatError } from "./model_file.ts";

const MAGIC = 0x46554747;
const VERSIONS = [2, 3];
/** Bytes of the shortest entry: an empty key, a type and one byte. */
const LEAST_METADATA_BYTES = 8 + 4 + 1;
/** Bytes of the shortest tensor entry: an empty name, one dimension, a type and an offset. */
const LEAST_TENSOR_BYTES = 8 + 4 + 8 + 4 + 8;

/** A tensor's description in the header, checked against the file. */
export interface GgufTensor {
  name: string;
  /** Such as `F16`. */
  type: string;
  /** Row-major, slowest dimension first: the reverse of the file's order. */
  shape: readonly number[];
  /** From the start of the file. */
  offset: number;
  bytes: number;
}

export interface GgufHeader {
  version: number;
  metadata: GgufMetadata;
  tensors: Map<string, GgufTensor>;
}

/**
 * Reads the header from the start of a file.
 *
 * @param data_bytes Bytes of the file for tensors; `Infinity` when they may be missing.
 * @throws {ServiceError} `format_invalid`.
 */
export function readGgufHeader(reader: HeaderReader, data_bytes = reader.size_bytes): GgufHeader {
  const { version, tensors, entries } = readPreamble(reader);
  const metadata = readMetadata(reader, entries);
  const listed = readTensorList(reader, tensors, data_bytes);
  const alignment = readAlignment(reader, metadata);
  return { version, metadata, tensors: placeTensors(reader, listed, { alignment, data_bytes }) };
}

function readPreamble(reader: HeaderReader) {
  if (reader.remaining < 4 || reader.u32() !== MAGIC) {
    reader.fail("it is not a GGUF file: it does not begin with GGUF", 0);
  }
  const version = reader.u32();
  if (version !== 0 && version % 65_536 === 0) {
    reader.fail("it is a big-endian GGUF file; only little-endian files are supported", 4);
  }
  if (!VERSIONS.includes(version)) {
    reader.fail(`it is of GGUF version ${version}; only ${VERSIONS.join(" and ")} are supported`, 4);
  }
  const tensors = reader.count("the number of tensors", MAX_TENSORS, LEAST_TENSOR_BYTES);
  const entries = reader.count("the number of metadata entries", MAX_METADATA_ENTRIES, LEAST_METADATA_BYTES);
  return { version, tensors, entries };
}

function readMetadata(reader: HeaderReader, entries: number): GgufMetadata {
  const metadata: GgufMetadata = new Map();
  for (let i = 0; i < entries; i++) {
    const begin = reader.position;
    const key = reader.text(`metadata key ${i}`, MAX_KEY_BYTES);
    if (metadata.has(key)) reader.fail(`the metadata key ${key} occurs twice`, begin);
    metadata.set(key, reader.value(key));
  }
  return metadata;
}

function readAlignment(reader: HeaderReader, metadata: GgufMetadata): number {
  const entry = metadata.get("general.alignment");
  if (!entry) return DEFAULT_ALIGNMENT;
  const { type, value } = entry;
  if (type !== "uint32" || value < 1 || value > MAX_ALIGNMENT || (value & (value - 1)) !== 0) {
    reader.fail(
      `general.alignment must be a power of two up to ${MAX_ALIGNMENT} (uint32), not ${type} ${value}`,
    );
  }
  return value;
}

interface ListedTensor {
  name: string;
  type: GgmlType;
  shape: number[];
  /** From the start of the data. */
  offset: number;
  bytes: number;
}

function readTensorList(reader: HeaderReader, count: number, data_bytes: number): ListedTensor[] {
  const names = new Set<string>();
  return Array.from({ length: count }, (_, i) => {
    const begin = reader.position;
    const name = reader.text(`the name of tensor ${i}`, MAX_TENSOR_NAME_BYTES);
    if (names.has(name)) reader.fail(`the tensor ${name} occurs twice`, begin);
    names.add(name);
    return readTensorEntry(reader, name, data_bytes);
  });
}

function readTensorEntry(reader: HeaderReader, name: string, data_bytes: number): ListedTensor {
  const begin = reader.position;
  const dimensions = reader.u32();
  if (dimensions < 1 || dimensions > MAX_DIMENSIONS) {
    reader.fail(`the tensor ${name} has ${dimensions} dimensions, not 1 to ${MAX_DIMENSIONS}`, begin);
  }
  const shape: number[] = [];
  for (let i = 0; i < dimensions; i++) shape.unshift(reader.u64(`dimension ${i} of the tensor ${name}`));
  if (shape.includes(0)) reader.fail(`the tensor ${name} has a dimension of 0`, begin);
  const type_at = reader.position;
  const id = reader.u32();
  const type = ggmlTypeById(id);
  if (!type) reader.fail(`the tensor ${name} has the unknown type ${id}`, type_at);
  const row = shape.at(-1)!;
  if (row % type.block_values !== 0) {
    const blocks = `blocks of ${type.block_values} values of ${type.name}`;
    reader.fail(`the rows of the tensor ${name} have ${row} values, which are not whole ${blocks}`, begin);
  }
  const bytes = ggmlTensorBytes(type, shape);
  if (!Number.isSafeInteger(bytes) || bytes > data_bytes) {
    reader.fail(`the tensor ${name} of shape [${shape}] is larger than the file`, begin);
  }
  const offset_at = reader.position;
  const offset = reader.u64(`the offset of the tensor ${name}`);
  if (offset > data_bytes) {
    reader.fail(`the tensor ${name} begins after the end of the file`, offset_at);
  }
  return { name, type, shape, offset, bytes };
}

/** Checks that the tensors are aligned, disjoint and within the file. */
function placeTensors(
  reader: HeaderReader,
  listed: ListedTensor[],
  { alignment, data_bytes }: { alignment: number; data_bytes: number },
): Map<string, GgufTensor> {
  const data = Math.ceil(reader.position / alignment) * alignment;
  let end = data, before = "";
  for (const { name, offset, bytes } of listed.toSorted((a, b) => a.offset - b.offset)) {
    const begin = data + offset;
    const fail = (reason: string) => {
      throw formatError(reader.path, `the tensor ${name} ${reason}`, { tensor: name, offset: begin });
    };
    if (offset % alignment !== 0) {
      fail(`begins at ${offset} of the data, which is no multiple of ${alignment}`);
    }
    if (begin < end) fail(`overlaps the tensor ${before}`);
    end = begin + bytes;
    before = name;
    if (end > data_bytes) {
      fail(`ends at byte ${end}, but the file has ${data_bytes}: it is truncated`);
    }
  }
  return new Map(listed.map(({ name, type, shape, offset, bytes }) => [
    name,
    { name, type: type.name, shape, offset: data + offset, bytes },
  ]));
}
