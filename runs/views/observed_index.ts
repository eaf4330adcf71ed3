/** The index of an observe directory, kept in memory and read further as it grows. */

import { indexEntry, readLine, scanLines } from "../../agent/results/observed_file.ts";
import { OBSERVE_INDEX, type ObservedUpdate } from "../../agent/results/observed.ts";
import { Pauses } from "../../core/pauses.ts";
import { openInside } from "./open_inside.ts";

/** Bytes of lines that are read without a pause. */
const PAUSE_BYTES = 1 << 17;

/** Bytes at the start of an index. They have the time of its first update, by which another run's index is recognised. */
const SIGN_BYTES = 256;

/** The updates of an index in order, and the number of lines that could not be read. */
export interface IndexView {
  updates: readonly ObservedUpdate[];
  skipped_lines: number;
}

/** The lines of the index that have been read. */
class ReadLines {
  readonly entries = new Map<number, ObservedUpdate>();
  skipped_lines = 0;
  /** The end of the last complete line. */
  end = 0;
  sign = "";
}

/** Reads the index of an observe directory, which may still grow. */
export class ObservedIndex {
  readonly #directory: string;
  #lines = new ReadLines();
  #reading: Promise<unknown> = Promise.resolve();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The index as it is now; empty without a file. Calls wait for each other. */
  read(): Promise<IndexView> {
    const view = this.#reading.then(() => this.#refresh());
    this.#reading = view.catch(() => {});
    return view;
  }

  async #refresh(): Promise<IndexView> {
    const file = await openInside(this.#directory, OBSERVE_INDEX);
    if (!file) {
      this.#lines = new ReadLines();
      return { updates: [], skipped_lines: 0 };
    }
    using _closing = file;
    const sign = await signOf(file), { size } = await file.stat();
    if (size < this.#lines.end || !sign.startsWith(this.#lines.sign)) this.#lines = new ReadLines();
    const lines = this.#lines;
    lines.sign = sign;
    let torn = { entry: null as ObservedUpdate | null, skipped_lines: 0 };
    const pauses = new Pauses(PAUSE_BYTES);
    for await (const found of scanLines(file, lines.end)) {
      for (const line of found) {
        await pauses.after(line.length);
        const entry = indexEntry(await readLine(file, line));
        if (!line.is_ended) {
          // It may still be growing, so the next call reads it again.
          torn = { entry, skipped_lines: entry ? 0 : 1 };
          continue;
        }
        if (entry) lines.entries.set(entry.update, entry);
        else lines.skipped_lines++;
        lines.end = line.offset + line.length + 1;
      }
    }
    const latest = torn.entry ? new Map([...lines.entries, [torn.entry.update, torn.entry]]) : lines.entries;
    const updates = [...latest.values()].sort((a, b) => a.update - b.update);
    return { updates, skipped_lines: lines.skipped_lines + torn.skipped_lines };
  }
}

async function signOf(file: Deno.FsFile): Promise<string> {
  const bytes = new Uint8Array(SIGN_BYTES);
  const n = await file.read(bytes);
  return new TextDecoder().decode(bytes.subarray(0, n ?? 0));
}
