/** Reads the logs of runs into the database, so that long ones are answered from an index. */

import { doing } from "../../core/errors.ts";
import { nextTurn } from "../../core/pauses.ts";
import { linesFrom } from "../../runs/record/log_lines.ts";
import type { LogEntry } from "../../runs/record/log_entry.ts";
import { csvOf, type MetricRow } from "../../runs/results/metric_series.ts";
import type { RunLog } from "../../runs/results/run_log.ts";
import type { Database } from "./database.ts";
import { decodeValues, encodeValues } from "./metric_values.ts";

/** How much text of a log is read in one transaction: a few milliseconds of work. */
const BATCH_BYTES = 1 << 16;

/** How many events of a log are removed in one transaction. */
const REMOVED_SEQS = 2000;

/** How far a log is read. */
interface Position {
  log: number;
  read_bytes: number;
  last_seq: number;
}

/** The names and values that an earlier event has for the same update and step. */
interface RepeatedRow {
  seq: number;
  time_ms: number;
  /** A JSON list. */
  names: string;
  values: Uint8Array;
}

/** A complete line of a log, in bytes from the file's start. */
interface Line {
  line: string;
  start: number;
  end: number;
}

/**
 * Follows the logs of runs. When a resumed run repeats an update, the new values replace the old ones. Until then the old
 * values of that update do not count.
 */
export class RunIndex {
  readonly #database: Database;
  readonly #following = new Map<string, Promise<unknown>>();
  readonly #removing = new Set<Promise<void>>();
  #is_stopped = false;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Reads what was appended to a log since the last call, up to the log's `end`. Calls for one run wait for each other. */
  async follow(log: RunLog): Promise<void> {
    await this.#inTurn(log.run, () => this.#follow(log));
  }

  /** Removes a run from the index. That takes long for a long log. */
  async forget(run: string): Promise<void> {
    await this.#inTurn(run, () => this.#forget(run));
  }

  /** Removes the runs that are no longer there. */
  async keepOnly(isThere: (run: string) => boolean): Promise<void> {
    const rows = this.#database.all<{ run: string }>("SELECT run FROM logs WHERE run IS NOT NULL");
    const gone = rows.filter(({ run }) => !isThere(run));
    for (const { run } of gone) await this.forget(run);
  }

  /** Completes the removals that an earlier server has begun. */
  async clean(): Promise<void> {
    const rows = this.#database.all<{ log: number }>("SELECT log FROM logs WHERE run IS NULL");
    for (const { log } of rows) await this.#removeRows(log);
  }

  /** Stops removing rows, because the server ends. {@link clean} of the next server completes the removal. */
  async stop(): Promise<void> {
    this.#is_stopped = true;
    await Promise.allSettled(this.#removing);
  }

  async #inTurn(run: string, work: () => Promise<void>): Promise<void> {
    const before = this.#following.get(run) ?? Promise.resolve();
    const mine = before.catch(() => {}).then(work);
    this.#following.set(run, mine);
    try {
      await mine;
    } finally {
      if (this.#following.get(run) === mine) this.#following.delete(run);
    }
  }

  async #follow(log: RunLog): Promise<void> {
    if (await this.#read(log)) return;
    await this.#forget(log.run);
    await this.#read(log);
  }

  /** @returns False when the log's lines are not those that were read before. */
  async #read(log: RunLog): Promise<boolean> {
    const position = this.#position(log.run), { read_bytes } = position;
    const size = await sizeOf(log.path), until = Math.min(size, log.end ?? Infinity);
    if (size < read_bytes) return false;
    // Another request may have read further meanwhile.
    if (until <= read_bytes) return true;
    if (read_bytes > 0 && !await isLineEnd(log.path, read_bytes)) return false;
    let batch: Line[] = [], start = read_bytes, is_known = true;
    const write = () => {
      is_known = this.#write(log, position, batch);
      batch = [];
    };
    for await (const { line, end } of linesFrom(log.path, start)) {
      if (end > until) break;
      batch.push({ line, start, end });
      start = end;
      if (end - batch[0]!.start >= BATCH_BYTES) write();
      if (!is_known) break;
    }
    if (batch.length > 0) write();
    return is_known || read_bytes === 0;
  }

  #position(run: string): Position {
    const query = "SELECT log, read_bytes, last_seq FROM logs WHERE run = ?";
    const found = this.#database.get<Position>(query, run);
    if (found) return { ...found };
    this.#database.run("INSERT INTO logs (run) VALUES (?)", run);
    return this.#position(run);
  }

  /**
   * Writes lines and moves the position to their end. Lines after a damaged one are not read.
   *
   * @returns False at a line that does not follow the last one.
   */
  #write(log: RunLog, position: Position, lines: readonly Line[]): boolean {
    return this.#database.rebuildable(() => {
      let is_known = true;
      for (const line of lines) {
        const next = position.last_seq + 1, entry = log.entryOf(line.line, next);
        is_known = entry === null || entry.seq === next;
        if (!is_known || entry === null && !log.skips_damaged) break;
        if (entry) this.#add(position.log, entry, line);
        position.last_seq = next;
        position.read_bytes = line.end;
      }
      const statement = "UPDATE logs SET read_bytes = ?, last_seq = ? WHERE log = ?";
      this.#database.run(statement, position.read_bytes, position.last_seq, position.log);
      return is_known;
    });
  }

  #add(log: number, entry: LogEntry, { start, end }: Line): void {
    switch (entry.kind) {
      case "samples":
        return this.#addSamples(log, entry);
      case "position":
        for (const table of ["metric_rows", "event_places"]) {
          this.#database.run(`DELETE FROM ${table} WHERE log = ? AND update_number > ?`, log, entry.update);
        }
        return;
      case "evaluation":
      case "checkpoint": {
        const { kind, name, update, seq } = entry;
        const statement = "INSERT OR REPLACE INTO event_places VALUES (?, ?, ?, ?, ?, ?, ?)";
        this.#database.run(statement, log, kind, name, update, seq, start, end - start);
      }
    }
  }

  #addSamples(log: number, entry: Extract<LogEntry, { kind: "samples" }>): void {
    const { values, ...event } = entry;
    this.#dropRepeated(log, entry);
    this.#writeRow(log, { ...event, names: Object.keys(values), values: Object.values(values) });
  }

  #writeRow(log: number, row: MetricRow & { values: readonly number[] }): void {
    const { seq, update, step, time_ms, names, values } = row;
    const statement = "INSERT OR REPLACE INTO metric_rows VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    const list = this.#list(JSON.stringify(names));
    const csv_bytes = new TextEncoder().encode(csvOf(row)).length;
    this.#database.run(statement, log, seq, update, step, time_ms, list, csv_bytes, encodeValues(values));
  }

  /** Removes values that earlier events have for the same update, step and name. */
  #dropRepeated(log: number, { update, step, values }: Extract<LogEntry, { kind: "samples" }>): void {
    // Without the hint SQLite would search all rows of the log.
    const query = 'SELECT seq, time_ms, names, "values" FROM metric_rows INDEXED BY metric_rows_by_update ' +
      "JOIN metric_lists USING (list) WHERE log = ? AND update_number = ? AND step = ?";
    const rows = this.#database.all<RepeatedRow>(query, log, update, step);
    for (const { seq, time_ms, ...row } of rows) {
      const all: string[] = JSON.parse(row.names), old = decodeValues(row.values);
      const names = all.filter((name) => !Object.hasOwn(values, name));
      if (names.length === all.length) continue;
      const kept = names.map((name) => old[all.indexOf(name)]!);
      this.#writeRow(log, { seq, update, step, time_ms, names, values: kept });
    }
  }

  #list(names: string): number {
    const found = this.#database.get<{ list: number }>(
      "SELECT list FROM metric_lists WHERE names = ?",
      names,
    );
    if (found) return found.list;
    this.#database.run("INSERT INTO metric_lists (names) VALUES (?)", names);
    return this.#list(names);
  }

  /** Removes a run at once from answers, and its rows in parts, because removing all of them takes too long. */
  async #forget(run: string): Promise<void> {
    const found = this.#database.get<{ log: number }>("SELECT log FROM logs WHERE run = ?", run);
    if (!found) return;
    this.#database.run("UPDATE logs SET run = NULL WHERE log = ?", found.log);
    await this.#removeRows(found.log);
  }

  async #removeRows(log: number): Promise<void> {
    const removing = this.#removeParts(log);
    this.#removing.add(removing);
    await removing.finally(() => this.#removing.delete(removing));
  }

  async #removeParts(log: number): Promise<void> {
    const part = "DELETE FROM metric_rows WHERE log = ? AND seq < " +
      "(SELECT coalesce(min(seq), 0) + ? FROM metric_rows WHERE log = ?)";
    do {
      if (this.#is_stopped) return;
      await nextTurn();
    } while (this.#database.rebuildable(() => this.#database.run(part, log, REMOVED_SEQS, log)) > 0);
    this.#database.transaction(() => {
      this.#database.run("DELETE FROM event_places WHERE log = ?", log);
      this.#database.run("DELETE FROM logs WHERE log = ?", log);
    });
  }
}

/** Whether a line ends at this byte offset. */
async function isLineEnd(path: string, offset: number): Promise<boolean> {
  using file = await doing(`read ${path}`, () => Deno.open(path, { read: true }));
  await file.seek(offset - 1, Deno.SeekMode.Start);
  const last = new Uint8Array(1);
  return await file.read(last) === 1 && last[0] === 10;
}

/** The size of a file; 0 when it does not exist yet. */
async function sizeOf(path: string): Promise<number> {
  return await doing(`read ${path}`, async () => {
    try {
      return (await Deno.stat(path)).size;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return 0;
      throw error;
    }
  });
}
