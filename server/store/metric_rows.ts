/** Reads metrics of runs from the index, a few events at a time, so that no answer delays others. */

import { nextTurn } from "../../core/pauses.ts";
import type { MetricRow, UpdateRange } from "../../runs/results/metric_series.ts";
import type { Database } from "./database.ts";
import { decodeValues } from "./metric_values.ts";

/** The events that are read at once. */
const SLICE = 200;

/** A metrics event with the length of its lines as CSV. */
export interface IndexedRow extends MetricRow {
  csv_bytes: number;
}

interface StoredRow extends Omit<IndexedRow, "names" | "values"> {
  list: number;
  values: Uint8Array;
}

const COLUMNS = 'seq, update_number AS "update", step, time_ms, list, csv_bytes, "values"';

/** Which metrics events of a run to read. */
export interface MetricSelection {
  run: string;
  /** Only events of these updates. */
  updates?: Partial<UpdateRange>;
  /** Only events with a larger number. */
  since?: number;
  /** Only events with one of these metrics; their rows have all of their metrics. */
  names?: readonly string[] | undefined;
}

/** Metrics events in the order of their numbers; none for a run that is not in the index. */
export function rowsBySeq(database: Database, selection: MetricSelection): AsyncGenerator<IndexedRow> {
  return new Reader(database, selection).bySeq();
}

/** Metrics events in the order of update and step. */
export function rowsByUpdate(database: Database, selection: MetricSelection): AsyncGenerator<IndexedRow> {
  return new Reader(database, selection).byUpdate();
}

/** The number of the newest event with metrics, and the length of all of them as CSV without its header. */
export function csvSize(database: Database, run: string): { last_seq: number; bytes: number } {
  const query = "SELECT coalesce(max(seq), 0) AS last_seq, coalesce(sum(csv_bytes), 0) AS bytes " +
    "FROM metric_rows WHERE log = (SELECT log FROM logs WHERE run = ?)";
  return { ...database.get<{ last_seq: number; bytes: number }>(query, run)! };
}

/** The first and last update with metrics, of those that are asked for; null without any. */
export function updateRange(
  database: Database,
  { run, updates = {} }: Pick<MetricSelection, "run" | "updates">,
): UpdateRange | null {
  const query = "SELECT min(update_number) AS first, max(update_number) AS last " +
    "FROM metric_rows INDEXED BY metric_rows_by_update WHERE log = (SELECT log FROM logs WHERE run = ?) " +
    "AND update_number BETWEEN ? AND ?";
  const { first, last } = database.get<{ first: number | null; last: number | null }>(
    query,
    run,
    ...edgesOf(updates),
  )!;
  return first === null || last === null ? null : { first, last };
}

function edgesOf({ first = 0, last = Number.MAX_SAFE_INTEGER }: Partial<UpdateRange>): [number, number] {
  return [first, last];
}

class Reader {
  readonly #database: Database;
  readonly #log: number | null;
  readonly #since: number;
  readonly #edges: [number, number];
  /** The lists of names to read, as JSON; null for all. */
  readonly #lists: string | null;
  readonly #names = new Map<number, readonly string[]>();

  constructor(database: Database, { run, since = 0, names, updates = {} }: MetricSelection) {
    this.#database = database;
    this.#since = since;
    this.#edges = edgesOf(updates);
    this.#log = database.get<{ log: number }>("SELECT log FROM logs WHERE run = ?", run)?.log ?? null;
    this.#lists = names ? this.#listsWith(names) : null;
  }

  async *bySeq(): AsyncGenerator<IndexedRow> {
    const query = `SELECT ${COLUMNS} FROM metric_rows WHERE log = ? AND seq > ? ` +
      `AND update_number BETWEEN ? AND ? AND seq > ? ` +
      `${this.#ofLists()} ORDER BY seq LIMIT ${SLICE}`;
    yield* this.#slices(query, { seq: 0 }, ({ seq }) => [seq]);
  }

  async *byUpdate(): AsyncGenerator<IndexedRow> {
    const query = `SELECT ${COLUMNS} FROM metric_rows INDEXED BY metric_rows_by_update ` +
      `WHERE log = ? AND seq > ? AND update_number BETWEEN ? AND ? AND (update_number, step, seq) > (?, ?, ?) ` +
      `${this.#ofLists()} ORDER BY update_number, step, seq LIMIT ${SLICE}`;
    const start = { update: this.#edges[0], step: -1, seq: -1 };
    yield* this.#slices(query, start, ({ update, step, seq }) => [update, step, seq]);
  }

  /** @param keyOf The values by which the next slice continues after a row. */
  async *#slices<K>(query: string, start: K, keyOf: (row: K) => number[]): AsyncGenerator<IndexedRow> {
    if (this.#log === null) return;
    const lists = this.#lists === null ? [] : [this.#lists];
    let key = keyOf(start);
    while (true) {
      const rows = this.#database.all<StoredRow & K>(
        query,
        this.#log,
        this.#since,
        ...this.#edges,
        ...key,
        ...lists,
      );
      for (const row of rows) {
        const { list, values, ...rest } = row;
        yield { ...rest, names: this.#namesOf(list), values: decodeValues(values) };
      }
      if (rows.length < SLICE) return;
      key = keyOf(rows.at(-1)!);
      await nextTurn();
    }
  }

  #ofLists(): string {
    return this.#lists === null ? "" : "AND list IN (SELECT value FROM json_each(?))";
  }

  #listsWith(names: readonly string[]): string {
    const query = "SELECT list FROM metric_lists WHERE EXISTS " +
      "(SELECT 1 FROM json_each(names) AS n JOIN json_each(?) AS w ON n.value = w.value)";
    return JSON.stringify(
      this.#database.all<{ list: number }>(query, JSON.stringify(names)).map(({ list }) => list),
    );
  }

  #namesOf(list: number): readonly string[] {
    let names = this.#names.get(list);
    if (!names) {
      const query = "SELECT names FROM metric_lists WHERE list = ?";
      names = JSON.parse(this.#database.get<{ names: string }>(query, list)!.names) as string[];
      this.#names.set(list, names);
    }
    return names;
  }
}
