/** A file of lines that grows beside its final name, and takes it when it is complete. */

import { dirname } from "node:path";
import { doing, ServiceError } from "../core/errors.ts";
import { makeFolder, syncParent } from "../core/files.ts";
import { openPartial } from "../core/partial.ts";

/** The name of a file while it grows. */
export const growingPath = (path: string) => `${path}.tmp`;

/** Every line is on disk when it has been added, so that a killed process leaves those before. */
export class GrowingFile {
  #file: Deno.FsFile | null;
  #lines = 0;

  private constructor(readonly path: string, file: Deno.FsFile) {
    this.#file = file;
  }

  /**
   * Opens `<path>.tmp`, empty.
   *
   * @throws {ServiceError} `path_not_found`; `conflict` while another process fills it.
   */
  static open(path: string): Promise<GrowingFile> {
    return doing(`write ${path}`, async () => {
      await makeFolder(dirname(path));
      return new GrowingFile(path, await openPartial(growingPath(path), { kind: "file", final: path }));
    });
  }

  /** Lines so far. */
  get lines(): number {
    return this.#lines;
  }

  /** Appends lines and flushes them. @throws {ServiceError} `internal` for a full disk. */
  async add(lines: readonly string[]): Promise<void> {
    if (lines.length === 0) return;
    await doing(`write ${growingPath(this.path)}`, async () => {
      const bytes = new TextEncoder().encode(lines.map((line) => `${line}\n`).join(""));
      for (let at = 0; at < bytes.length;) at += await this.#opened().write(bytes.subarray(at));
      await this.#opened().syncData();
    });
    this.#lines += lines.length;
  }

  /** Gives the file its final name. */
  async finish(): Promise<void> {
    await doing(`write ${this.path}`, async () => {
      await this.#opened().sync();
      await Deno.rename(growingPath(this.path), this.path);
      await syncParent(this.path);
    });
    this.#close();
  }

  /**
   * Leaves `<path>.tmp` where it is, or removes it when it has no line. Does nothing after {@link finish}.
   *
   * @returns Whether it left lines.
   */
  async leave(): Promise<boolean> {
    if (this.#file === null) return false;
    if (this.#lines === 0) await Deno.remove(growingPath(this.path)).catch(() => {});
    this.#close();
    return this.#lines > 0;
  }

  #opened(): Deno.FsFile {
    if (this.#file) return this.#file;
    throw new ServiceError("internal", `Cannot write ${this.path}: it is closed`);
  }

  #close(): void {
    this.#file?.close();
    this.#file = null;
  }
}
