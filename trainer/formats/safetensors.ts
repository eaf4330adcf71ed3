/** Reads and writes safetensors files: a JSON header, then the tensors' bytes without gaps. */

import { isJsonObject } from "../../core/json.ts";
import { assert } from "../../core/errors.ts";
import { writeFileAtomic } from "../../core/files.ts";
import { alignedBytes } from "../../core/float16.ts";
import { duplicateKey } from "./json_keys.ts";
import { openRegularFile, type RegularFile } from "../../core/regular_file.ts";
import { formatError } from "./model_file.ts";

/** The longest header in bytes, as in the format's own reader. */
export const MAX_SAFETENSORS_HEADER_BYTES = 100_000_000;

/** Bytes of a value of each type. */
const ITEM_BYTES = {
  F64: 8,
  F32: 4,
  F16: 2,
  BF16: 2,
  I64: 8,
  I32: 4,
  I16: 2,
  I8: 1,
  U64: 8,
  U32: 4,
  U16: 2,
  U8: 1,
  BOOL: 1,
} as const;

type SafetensorsType = keyof typeof ITEM_BYTES;

/** A tensor with its bytes, little-endian, row-major. */
export interface SafetensorsTensor {
  dtype: SafetensorsType;
  shape: readonly number[];
  data: Uint8Array;
}

export interface SafetensorsContent {
  /** The `__metadata__` of the header. */
  metadata: Map<string, string>;
  tensors: Map<string, SafetensorsTensor>;
}

/** A tensor of floats to write. */
export function floatTensor(shape: readonly number[], values: Float32Array): SafetensorsTensor {
  return { dtype: "F32", shape, data: new Uint8Array(values.buffer, values.byteOffset, values.byteLength) };
}

/**
 * Writes a safetensors file atomically. The file is read back and compared before it gets its name.
 *
 * The header is padded with spaces to a multiple of 8 bytes, so that the data is aligned.
 */
export async function writeSafetensors(path: string, content: SafetensorsContent): Promise<void> {
  const header: Record<string, unknown> = {};
  if (content.metadata.size > 0) header["__metadata__"] = Object.fromEntries(content.metadata);
  let end = 0;
  for (const [name, { dtype, shape, data }] of content.tensors) {
    assert(data.length === byteCount(dtype, shape), `${name} has as many bytes as its shape asks for`);
    header[name] = { dtype, shape, data_offsets: [end, end += data.length] };
  }
  const text = new TextEncoder().encode(JSON.stringify(header));
  const head = new Uint8Array(8 + Math.ceil(text.length / 8) * 8).fill(0x20);
  new DataView(head.buffer).setBigUint64(0, BigInt(head.length - 8), true);
  head.set(text, 8);
  const pieces = [head, ...[...content.tensors.values()].map(({ data }) => data)];
  await writeFileAtomic(path, pieces, async (partial_path) => {
    const back = await readSafetensors(partial_path);
    for (const [name, { data }] of content.tensors) {
      const read = back.tensors.get(name);
      if (!read || !sameBytes(read.data, data)) {
        throw formatError(path, `read back, the tensor ${name} differs`);
      }
    }
  });
}

/**
 * Reads an entire safetensors file.
 *
 * @throws {ServiceError} `path_not_found`, or `format_invalid` when header and data do not match exactly.
 */
export async function readSafetensors(path: string): Promise<SafetensorsContent> {
  using file = await openRegularFile(path);
  const { size } = await file.stat();
  if (size < 8) throw formatError(path, `it has ${size} bytes, too few for a safetensors file`);
  const length = Number(new DataView((await readBytes(file, path, 8)).buffer).getBigUint64(0, true));
  if (length > Math.min(size - 8, MAX_SAFETENSORS_HEADER_BYTES)) {
    throw formatError(path, `its header of ${length} bytes is longer than the file or the limit`);
  }
  const { metadata, listed } = parseHeader(path, await readBytes(file, path, length), size - 8 - length);
  const tensors = new Map<string, SafetensorsTensor>();
  for (const { name, dtype, shape, bytes } of listed) {
    tensors.set(name, { dtype, shape, data: await readBytes(file, path, bytes) });
  }
  return { metadata, tensors };
}

/** The values of an F32 tensor of a file. @throws {ServiceError} When it is absent or has another type or shape. */
export function floatsOf(
  path: string,
  content: SafetensorsContent,
  wanted: { name: string; shape?: readonly number[] },
): Float32Array {
  const tensor = content.tensors.get(wanted.name);
  if (!tensor) throw formatError(path, `the tensor ${wanted.name} is missing`);
  const shape = wanted.shape ?? tensor.shape;
  if (tensor.dtype !== "F32" || `${tensor.shape}` !== `${shape}`) {
    const found = `${tensor.dtype} [${tensor.shape}]`;
    throw formatError(path, `the tensor ${wanted.name} is ${found}, not F32 [${shape}]`);
  }
  const aligned = alignedBytes(tensor.data, 4);
  return new Float32Array(aligned.buffer, aligned.byteOffset, aligned.byteLength / 4);
}

interface ListedTensor {
  name: string;
  dtype: SafetensorsType;
  shape: number[];
  begin: number;
  bytes: number;
}

function parseHeader(path: string, bytes: Uint8Array, data_bytes: number) {
  let text: string, header: unknown;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    header = JSON.parse(text);
  } catch (error) {
    throw formatError(path, `its header is not JSON: ${(error as Error).message}`);
  }
  if (!isJsonObject(header)) throw formatError(path, "its header is not a JSON object");
  const twice = duplicateKey(text);
  if (twice !== null) throw formatError(path, `the key ${twice} occurs twice in its header`);
  const metadata = new Map<string, string>(), listed: ListedTensor[] = [];
  for (const [name, value] of Object.entries(header)) {
    if (name !== "__metadata__") {
      listed.push(parseEntry(path, name, value));
      continue;
    }
    if (!isJsonObject(value)) throw formatError(path, "its __metadata__ is not an object");
    for (const [key, entry] of Object.entries(value)) {
      if (typeof entry !== "string") {
        throw formatError(path, `the value of ${key} in its __metadata__ is no string`);
      }
      metadata.set(key, entry);
    }
  }
  listed.sort((a, b) => a.begin - b.begin || a.bytes - b.bytes);
  let end = 0;
  for (const { name, begin, bytes } of listed) {
    if (begin !== end) throw formatError(path, `the tensor ${name} begins at ${begin}, not at ${end}`);
    end += bytes;
  }
  if (end !== data_bytes) {
    throw formatError(path, `its tensors take ${end} bytes, but ${data_bytes} follow the header`);
  }
  return { metadata, listed };
}

function parseEntry(path: string, name: string, value: unknown): ListedTensor {
  const fail = (reason: string): never => {
    throw formatError(path, `the tensor ${name} ${reason}`, { tensor: name });
  };
  if (!isJsonObject(value)) return fail("is not described by an object");
  const { dtype, shape, data_offsets } = value;
  if (typeof dtype !== "string" || !Object.hasOwn(ITEM_BYTES, dtype)) {
    return fail(`has the unknown type ${dtype}`);
  }
  if (!isSizes(shape)) return fail("has no shape of whole numbers");
  if (!isSizes(data_offsets) || data_offsets.length !== 2) {
    return fail("has no data_offsets of two whole numbers");
  }
  const type = dtype as SafetensorsType, [begin, end] = data_offsets as [number, number];
  const bytes = byteCount(type, shape);
  if (end - begin !== bytes) return fail(`takes ${bytes} bytes, but its data_offsets hold ${end - begin}`);
  return { name, dtype: type, shape, begin, bytes };
}

function byteCount(dtype: SafetensorsType, shape: readonly number[]): number {
  return shape.reduce((product, size) => product * size, ITEM_BYTES[dtype]);
}

function isSizes(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((size) => Number.isSafeInteger(size) && size >= 0);
}

function sameBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && left.every((byte, i) => byte === right[i]);
}

async function readBytes(file: RegularFile, path: string, count: number): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(count);
  for (let at = 0; at < count;) {
    const part = await file.read(bytes.subarray(at));
    if (part === null) throw formatError(path, "the file became shorter while it was read");
    at += part;
  }
  return bytes;
}
