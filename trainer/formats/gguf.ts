/** Reads GGUF files of versions 2 and 3 without loading entire files into memory. */

import { DECODED_TYPES, type DecodedType, decodeTensor, isDecodedType } from "./ggml_types.ts";
import { type GgufHeader, type GgufTensor, readGgufHeader } from "./gguf_header.ts";
import type { GgufMetadata, GgufValue } from "./gguf_values.ts";
import { HeaderReader } from "./header_reader.ts";
import { type CheckedFile, openRegularFile, type RegularFile } from "../../core/regular_file.ts";
import { elementCount } from "../../kernels/shape.ts";
import { formatError } from "./model_file.ts";

/** The expected type of a metadata entry, and how to read it; undefined when the type is another. */
interface ValueKind<T> {
  name: string;
  read: (entry: GgufValue) => T | undefined;
}

const WHOLE_NUMBER: ValueKind<number> = {
  name: "a whole number",
  read({ type, value }) {
    if (type === "float32" || type === "float64") return undefined;
    const number = typeof value === "bigint" ? Number(value) : value;
    return typeof number === "number" && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
  },
};
const NUMBER: ValueKind<number> = {
  name: "a number",
  read: ({ value }) => typeof value === "number" && Number.isFinite(value) ? value : undefined,
};
const TRUTH_VALUE: ValueKind<boolean> = {
  name: "a truth value",
  read: ({ value }) => typeof value === "boolean" ? value : undefined,
};
const STRING: ValueKind<string> = {
  name: "a string",
  read: ({ value }) => typeof value === "string" ? value : undefined,
};
const STRINGS: ValueKind<string[]> = {
  name: "an array of strings",
  read: (entry) => entry.type === "array" && entry.item_type === "string" ? entry.value : undefined,
};
const NUMBERS: ValueKind<ArrayLike<number>> = {
  name: "an array of numbers",
  read(entry) {
    if (entry.type !== "array" || entry.item_type === "string") return undefined;
    const { value } = entry;
    return value instanceof BigInt64Array || value instanceof BigUint64Array ? undefined : value;
  },
};

/** An open GGUF file; close it, or declare it with `using`. */
export class GgufFile {
  /** Reads of one file share its cursor, so they run one after the other. */
  #reading: Promise<unknown> = Promise.resolve();

  readonly version: number;
  readonly metadata: GgufMetadata;
  readonly tensors: ReadonlyMap<string, GgufTensor>;

  constructor(readonly path: string, private readonly file: RegularFile, header: GgufHeader) {
    this.version = header.version;
    this.metadata = header.metadata;
    this.tensors = header.tensors;
  }

  close(): void {
    this.file.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** An integer from 0. @throws {ServiceError} When the key is absent without a fallback, or has another type. */
  getUint(key: string, fallback?: number): number {
    return this.#get(key, fallback, WHOLE_NUMBER);
  }

  getFloat(key: string, fallback?: number): number {
    return this.#get(key, fallback, NUMBER);
  }

  getBool(key: string, fallback?: boolean): boolean {
    return this.#get(key, fallback, TRUTH_VALUE);
  }

  getString(key: string, fallback?: string): string {
    return this.#get(key, fallback, STRING);
  }

  getStrings(key: string, fallback?: string[]): string[] {
    return this.#get(key, fallback, STRINGS);
  }

  /** An array of numbers of at most 32 bits, or of doubles. */
  getNumbers(key: string, fallback?: ArrayLike<number>): ArrayLike<number> {
    return this.#get(key, fallback, NUMBERS);
  }

  /** The description of a tensor. @throws {ServiceError} When the file does not have it. */
  tensor(name: string): GgufTensor {
    const tensor = this.tensors.get(name);
    if (!tensor) throw formatError(this.path, `the tensor ${name} is missing`, { tensor: name });
    return tensor;
  }

  /** The type of a tensor that can be decoded. @throws {ServiceError} For other types. */
  tensorType(name: string): DecodedType {
    const { type } = this.tensor(name);
    if (isDecodedType(type)) return type;
    throw formatError(
      this.path,
      `the tensor ${name} is of type ${type}; only ${DECODED_TYPES.join(", ")} can be read. ` +
        `Convert the model to one of them`,
      { tensor: name, type },
    );
  }

  /** The bytes of a tensor as stored in the file. @throws {ServiceError} For a type that cannot be decoded. */
  async readTensor(name: string): Promise<Uint8Array<ArrayBuffer>> {
    this.tensorType(name);
    const { offset, bytes } = this.tensor(name);
    const into = new Uint8Array(bytes);
    await this.#read(name, offset, into);
    return into;
  }

  /** Fills `into` with the bytes of a tensor from byte `at` on, which the tensor has. */
  async readTensorPart(name: string, at: number, into: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.#read(name, this.tensor(name).offset + at, into);
  }

  /** The values of a tensor in single precision. */
  async readFloats(name: string): Promise<Float32Array<ArrayBuffer>> {
    return decodeTensor(this.tensorType(name), await this.readTensor(name));
  }

  async #read(name: string, offset: number, into: Uint8Array<ArrayBuffer>): Promise<void> {
    const read = this.#reading.then(async () => {
      this.file.seek(offset);
      for (let at = 0; at < into.length;) {
        const part = await this.file.read(into.subarray(at));
        if (part === null) {
          throw formatError(this.path, `the file became shorter while the tensor ${name} was read`);
        }
        at += part;
      }
    });
    this.#reading = read.catch(() => {});
    await read;
  }

  #get<T>(key: string, fallback: T | undefined, kind: ValueKind<T>): T {
    const entry = this.metadata.get(key);
    if (!entry) {
      if (fallback !== undefined) return fallback;
      throw formatError(this.path, `the metadata key ${key} is missing`, { key });
    }
    const value = kind.read(entry);
    if (value !== undefined) return value;
    const found = entry.type === "array" ? `an array of ${entry.item_type}` : `${entry.type} ${entry.value}`;
    throw formatError(this.path, `the metadata key ${key} must be ${kind.name}, but is ${found}`, { key });
  }
}

/**
 * Opens a GGUF file and reads its header.
 *
 * @throws {ServiceError} `path_not_found`, or `format_invalid` that names the file and the byte or tensor at fault.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * assert.equal(file.getString("general.architecture"), "qwen3");
 * const norm = await file.readFloats("output_norm.weight");
 * assert.deepEqual([norm.length], file.tensor("output_norm.weight").shape);
 * ```
 */
export function openGguf(file: string | CheckedFile): Promise<GgufFile> {
  return open(file, { needs_data: true });
}

/** Like {@link openGguf}, for a file that may end anywhere after its header: its tensors must not be read. */
export function openGgufHeader(file: string | CheckedFile): Promise<GgufFile> {
  return open(file, { needs_data: false });
}

/** The number of parameters in all tensors of a file. */
export function countParameters({ tensors }: Pick<GgufFile, "tensors">): number {
  return [...tensors.values()].reduce((sum, { shape }) => sum + elementCount(shape), 0);
}

async function open(
  named: string | CheckedFile,
  { needs_data }: { needs_data: boolean },
): Promise<GgufFile> {
  const file = await openRegularFile(named), path = typeof named === "string" ? named : named.path;
  try {
    const { size: size_bytes } = await file.stat();
    const reader = new HeaderReader(path, size_bytes, file);
    return new GgufFile(path, file, readGgufHeader(reader, needs_data ? size_bytes : Infinity));
  } catch (error) {
    file.close();
    throw error;
  }
}
