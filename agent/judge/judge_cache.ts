/** Keeps judgements in a file, so that the same question is not asked again: one JSON line for each. */

import { ServiceError, systemError } from "../../core/errors.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";

/** The longest line; a longer one is no judgement, and is passed over. */
export const MAX_LINE_BYTES = 4 << 20;

const LF = 10;

const KEY = /^\{"key":"([0-9a-f]{64})",/;

/** The bytes that a key at the beginning of a line takes. */
const KEY_BYTES = 80;

/** Where a line lies in the file. */
interface Line {
  offset: number;
  length: number;
}

/**
 * A file of judgements. A line is added whole and is on disk before it counts; a line that a crash left torn, or that is
 * damaged, is passed over. Of two lines with one key the later one counts. Several processes may use one file; each
 * knows the lines of the others that were there when it started.
 */
export class JudgeCache {
  readonly #lines = new Map<string, Line>();
  #file: Deno.FsFile | null = null;
  #starting: Promise<void> | null = null;
  #last: Promise<unknown> = Promise.resolve();

  /** @param path The file; its folder must exist. */
  constructor(readonly path: string) {}

  /** Opens the file and finds its lines; later calls do nothing. @throws {ServiceError} `config_invalid`, `path_not_found`. */
  start(): Promise<void> {
    return this.#starting ??= this.#open().catch((error) => {
      this.close();
      this.#starting = null;
      throw error;
    });
  }

  /** The value of a key; null when there is none that can be read. */
  get(key: string): Promise<unknown> {
    return this.#alone(async (file) => {
      const line = this.#lines.get(key);
      if (!line) return null;
      const bytes = await readAt(file, line);
      try {
        const value = parseJson(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
        return isJsonObject(value) && value.key === key ? value.value ?? null : null;
      } catch {
        return null;
      }
    });
  }

  /** Adds a value; it is on disk when this returns. @throws {ServiceError} */
  put(key: string, value: unknown): Promise<void> {
    return this.#alone(async (file) => {
      const bytes = new TextEncoder().encode(`${JSON.stringify({ key, value })}\n`);
      try {
        // The file is open for appending, where one write is whole.
        for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
        await file.syncData();
      } catch (error) {
        throw systemError(`keep a judgement in ${this.path}`, error);
      }
      const end = (await file.stat()).size;
      // Another process may have added a line after it: reading then finds another key, and the question is asked again.
      this.#lines.set(key, { offset: end - bytes.length, length: bytes.length - 1 });
    });
  }

  /** Closes the file. Never throws; a second call does nothing. */
  close(): void {
    this.#file?.close();
    this.#file = null;
    this.#lines.clear();
  }

  /** One operation at a time uses the file's position. */
  #alone<T>(work: (file: Deno.FsFile) => Promise<T>): Promise<T> {
    const next = this.#last.then(() => {
      if (!this.#file) throw new Error("the file of judgements is not open");
      return work(this.#file);
    });
    this.#last = next.catch(() => {});
    return next;
  }

  async #open(): Promise<void> {
    try {
      this.#file = await Deno.open(this.path, { read: true, append: true, create: true });
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) {
        throw systemError(`keep judgements in ${this.path}`, error);
      }
      throw new ServiceError(
        "config_invalid",
        `Cannot keep judgements in ${this.path}: its folder does not exist; make it, or change agent.judge.cache_path`,
      );
    }
    const file = this.#file;
    if (!(await file.stat()).isFile) {
      throw new ServiceError(
        "config_invalid",
        `Cannot keep judgements in ${this.path}: it is not a regular file`,
      );
    }
    const is_torn = await this.#index(file);
    if (is_torn) await file.write(new Uint8Array([LF]));
  }

  /** Finds the lines; returns whether the file ends inside of one. */
  async #index(file: Deno.FsFile): Promise<boolean> {
    const piece = new Uint8Array(1 << 18), decoder = new TextDecoder();
    let at = 0, start = 0, head = "";
    for (let n = await file.read(piece); n !== null; n = await file.read(piece)) {
      const bytes = piece.subarray(0, n);
      for (let from = 0; from < n;) {
        const lf = bytes.indexOf(LF, from), end = lf < 0 ? n : lf;
        if (head.length < KEY_BYTES) {
          head += decoder.decode(bytes.subarray(from, Math.min(end, from + KEY_BYTES)));
        }
        if (lf < 0) break;
        const key = KEY.exec(head)?.[1], length = at + lf - start;
        if (key && length <= MAX_LINE_BYTES) this.#lines.set(key, { offset: start, length });
        start = at + lf + 1;
        head = "";
        from = lf + 1;
      }
      at += n;
    }
    return at > start;
  }
}

async function readAt(file: Deno.FsFile, { offset, length }: Line): Promise<Uint8Array> {
  await file.seek(offset, Deno.SeekMode.Start);
  const bytes = new Uint8Array(length);
  let read = 0;
  while (read < length) {
    const n = await file.read(bytes.subarray(read));
    if (n === null) break;
    read += n;
  }
  return bytes.subarray(0, read);
}
