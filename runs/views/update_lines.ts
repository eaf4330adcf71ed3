/** The lines of an update's file in an observe directory: found once, then read one at a time. */

import type { z } from "zod";
import {
  headOf,
  type LineHead,
  type LinePlace,
  MAX_OBSERVED_LINE_BYTES,
  readLine,
  scanLines,
} from "../../agent/results/observed_file.ts";
import { updateFile } from "../../agent/results/observed.ts";
import { Pauses } from "../../core/pauses.ts";
import { openInside } from "./open_inside.ts";

/** The most lines of a file that are found; the rest counts as skipped. */
export const MAX_LINES = 1 << 18;

/** The most lines that are remembered, over all files. */
const MAX_REMEMBERED = 1 << 19;

/** Bytes of lines that are read without a pause. */
const PAUSE_BYTES = 1 << 20;

/** Lines that are found without a pause. */
const PAUSE_LINES = 10_000;

export type FoundLine = LineHead & LinePlace;

interface LineTable {
  lines: FoundLine[];
  skipped_lines: number;
}

/** Which lines of a file are wanted. */
export interface FindOptions {
  /** The kind of line before which to stop: facts come before texts, and texts before parts. */
  before?: LineHead["kind"];
}

/** Remembers the lines of files. A file that is replaced has another identity. */
export class LineTables {
  readonly #tables = new Map<string, LineTable>();
  #remembered = 0;

  /** The lines of an open file. */
  async find(file: Deno.FsFile, { before }: FindOptions): Promise<LineTable> {
    const { dev, ino, size, mtime } = await file.stat();
    const key = [dev, ino, size, mtime?.getTime(), before].join(":");
    const known = this.#tables.get(key);
    if (known) return known;
    const table = await findLines(file, before);
    this.#remember(key, table);
    return table;
  }

  #remember(key: string, table: LineTable): void {
    this.#tables.set(key, table);
    this.#remembered += table.lines.length;
    for (const [oldest, { lines }] of this.#tables) {
      if (this.#remembered <= MAX_REMEMBERED || oldest === key) break;
      this.#tables.delete(oldest);
      this.#remembered -= lines.length;
    }
  }
}

async function findLines(file: Deno.FsFile, before: FindOptions["before"]): Promise<LineTable> {
  const table: LineTable = { lines: [], skipped_lines: 0 };
  const seen = new Set<string>(), pauses = new Pauses(PAUSE_LINES);
  for await (const scanned of scanLines(file)) {
    await pauses.after(scanned.length);
    for (const { offset, length, head, is_ended } of scanned) {
      const found = headOf(head);
      if (found && found.kind === before) return table;
      const name = found && `${found.kind} ${found.group} ${found.member} ${found.start}`;
      const is_complete = length <= MAX_OBSERVED_LINE_BYTES &&
        (is_ended || await readLine(file, { offset, length }) !== null);
      if (!name || seen.has(name) || !is_complete || table.lines.length >= MAX_LINES) table.skipped_lines++;
      else {
        seen.add(name);
        table.lines.push({ ...found, offset, length });
      }
    }
  }
  return table;
}

/** An open file of an update. Its lines stay the same while it is open, also when the run replaces the file. */
export class UpdateLines implements Disposable {
  readonly #file: Deno.FsFile;
  readonly lines: readonly FoundLine[];
  /** Lines that could not be read so far. */
  skipped_lines: number;
  /** Bytes that were read from lines. */
  read_bytes = 0;
  readonly #pauses = new Pauses(PAUSE_BYTES);

  private constructor(file: Deno.FsFile, table: LineTable) {
    this.#file = file;
    this.lines = table.lines;
    this.skipped_lines = table.skipped_lines;
  }

  /** Opens the file of an update; null when there is none. */
  static async open(
    directory: string,
    update: number,
    { tables, ...options }: { tables: LineTables } & FindOptions,
  ): Promise<UpdateLines | null> {
    const file = await openInside(directory, updateFile(update));
    if (!file) return null;
    try {
      return new UpdateLines(file, await tables.find(file, options));
    } catch (error) {
      file.close();
      throw error;
    }
  }

  /** The content of a line; null, and counted, when it has another form. */
  async read<T>(line: FoundLine, schema: z.ZodType<T>): Promise<T | null> {
    await this.#pauses.after(line.length);
    this.read_bytes += line.length;
    const fields = await readLine(this.#file, line) as Record<string, unknown> | null;
    const content = schema.safeParse(fields?.[line.kind]);
    if (content.success) return content.data;
    this.skipped_lines++;
    return null;
  }

  [Symbol.dispose](): void {
    this.#file.close();
  }
}
