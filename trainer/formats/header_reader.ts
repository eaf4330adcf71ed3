/** Parses the header of a GGUF file piece by piece. Every length is checked against the file before it is used. */

import type { RegularFile } from "../../core/regular_file.ts";
import {
  ARRAY_TYPE_ID,
  type GgufValue,
  MAX_ARRAY_ITEMS,
  MAX_HEADER_BYTES,
  MAX_STRING_BYTES,
  NUMBER_TYPES,
  type NumberArray,
  type NumberType,
  STRING_TYPE_ID,
} from "./gguf_values.ts";
import { formatError } from "./model_file.ts";

/** The part of the file that is in memory while its header is parsed. */
const WINDOW_BYTES = 1 << 16;

const NUMBER_TYPE_BY_ID = new Map(
  Object.entries(NUMBER_TYPES).map(([name, type]) => [type.id as number, name as NumberType]),
);

/** Reads little-endian values from the start of a file through a window of fixed size. */
export class HeaderReader {
  readonly #decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  readonly #window = new Uint8Array(WINDOW_BYTES);
  readonly #view = new DataView(this.#window.buffer);
  /** The window holds the file's bytes [`#start`, `#start + #held`). */
  #start = 0;
  #held = 0;
  #at = 0;

  constructor(
    readonly path: string,
    readonly size_bytes: number,
    private readonly file: RegularFile,
  ) {}

  /** The position of the next value in bytes from the start of the file. */
  get position(): number {
    return this.#start + this.#at;
  }

  get remaining(): number {
    return this.size_bytes - this.position;
  }

  /** The error for the byte at `position`, by default the next byte. */
  fail(reason: string, position = this.position): never {
    throw formatError(this.path, `${reason} (byte ${position})`, { offset: position });
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  /** A 64-bit count, length or offset. */
  u64(what: string): number {
    const at = this.#take(8);
    const value = this.#view.getUint32(at + 4, true) * 2 ** 32 + this.#view.getUint32(at, true);
    if (!Number.isSafeInteger(value)) {
      this.fail(`${what} of ${value} is beyond every file`, this.position - 8);
    }
    return value;
  }

  /** A 64-bit count of items that each take at least `least_bytes` in the rest of the file. */
  count(what: string, most: number, least_bytes: number): number {
    const begin = this.position;
    const count = this.u64(what);
    if (count > most) this.fail(`${what} is ${count}, more than the limit of ${most}`, begin);
    if (count * least_bytes > this.remaining) {
      this.fail(`${what} is ${count}, but only ${this.remaining} bytes follow: the file is truncated`, begin);
    }
    return count;
  }

  /** A length and this many bytes of UTF-8. */
  text(what: string, most_bytes: number): string {
    const begin = this.position;
    const bytes = this.#bytes(this.count(`the length of ${what}`, most_bytes, 1));
    try {
      return this.#decoder.decode(bytes);
    } catch {
      return this.fail(`${what} is not valid UTF-8`, begin);
    }
  }

  /** A value type and the value. */
  value(key: string): GgufValue {
    const begin = this.position;
    const id = this.u32();
    if (id === STRING_TYPE_ID) {
      return { type: "string", value: this.text(`the value of ${key}`, MAX_STRING_BYTES) };
    }
    if (id === ARRAY_TYPE_ID) return this.#array(key);
    const type = NUMBER_TYPE_BY_ID.get(id);
    if (!type) this.fail(`${key} has the unknown value type ${id}`, begin);
    const value = this.#numbers(key, type, 1)[0]!;
    if (type === "bool") return { type, value: value === 1 };
    return { type, value } as GgufValue;
  }

  #array(key: string): GgufValue {
    const begin = this.position;
    const id = this.u32();
    if (id === STRING_TYPE_ID) {
      const count = this.count(`the number of items of ${key}`, MAX_ARRAY_ITEMS, 8);
      const value: string[] = [];
      for (let i = 0; i < count; i++) value.push(this.text(`item ${i} of ${key}`, MAX_STRING_BYTES));
      return { type: "array", item_type: "string", value };
    }
    const item_type = NUMBER_TYPE_BY_ID.get(id);
    if (!item_type) {
      const kind = id === ARRAY_TYPE_ID
        ? "nested arrays, which are not supported"
        : `the unknown item type ${id}`;
      this.fail(`${key} has ${kind}`, begin);
    }
    const item_bytes = NUMBER_TYPES[item_type].array.BYTES_PER_ELEMENT;
    const count = this.count(`the number of items of ${key}`, MAX_ARRAY_ITEMS, item_bytes);
    return { type: "array", item_type, value: this.#numbers(key, item_type, count) };
  }

  #numbers(key: string, type: NumberType, count: number): NumberArray {
    const { array } = NUMBER_TYPES[type];
    const begin = this.position;
    const bytes = this.#bytes(count * array.BYTES_PER_ELEMENT).slice();
    if (type === "bool") {
      const wrong = bytes.findIndex((byte) => byte > 1);
      if (wrong >= 0) this.fail(`${key} holds ${bytes[wrong]} where 0 or 1 must stand`, begin + wrong);
    }
    return new array(bytes.buffer);
  }

  /** The next `count` bytes; valid until the next read. */
  #bytes(count: number): Uint8Array {
    if (count <= WINDOW_BYTES) {
      const at = this.#take(count);
      return this.#window.subarray(at, at + count);
    }
    const bytes = new Uint8Array(count);
    for (let done = 0; done < count;) {
      const part = Math.min(WINDOW_BYTES, count - done);
      const at = this.#take(part);
      bytes.set(this.#window.subarray(at, at + part), done);
      done += part;
    }
    return bytes;
  }

  /** Advances by `count` bytes, at most a window, and returns their position in the window. */
  #take(count: number): number {
    if (count > this.remaining) this.fail(`the header ends early: the file has ${this.size_bytes} bytes`);
    if (this.position + count > MAX_HEADER_BYTES) {
      this.fail(`the header is longer than the limit of ${MAX_HEADER_BYTES} bytes`);
    }
    if (this.#at + count > this.#held) this.#fill(count);
    this.#at += count;
    return this.#at - count;
  }

  #fill(least: number): void {
    this.#window.copyWithin(0, this.#at, this.#held);
    this.#start += this.#at;
    this.#held -= this.#at;
    this.#at = 0;
    this.file.seek(this.#start + this.#held);
    while (this.#held < least) {
      const read = this.file.readSync(this.#window.subarray(this.#held));
      if (read === null) this.fail("the file became shorter while it was read");
      this.#held += read;
    }
  }
}
