/**
 * The server's database, `<data_dir>/index.sqlite`. Samples and places of events can be rebuilt from the logs of runs at
 * any time. Events of all runs that are lost are published again. This file has the pragmas, the schema and the treatment
 * of a damaged file; other files have the statements.
 */

import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite";
import { type Clock, timestamp } from "../../core/clock.ts";
import { assert, ServiceError, systemError } from "../../core/errors.ts";

/** `MIGRATIONS[i]` brings the schema from version i to i + 1. A released one is never changed: add another. */
const MIGRATIONS: readonly string[] = [
  `
  -- A log that is read into the index. run is null for a log whose rows are being removed.
  CREATE TABLE logs (
    log INTEGER PRIMARY KEY,
    run TEXT UNIQUE,
    read_bytes INTEGER NOT NULL DEFAULT 0,
    last_seq INTEGER NOT NULL DEFAULT 0
  ) STRICT;

  -- The names of an event's metrics, as a JSON list.
  CREATE TABLE metric_lists (list INTEGER PRIMARY KEY, names TEXT NOT NULL UNIQUE) STRICT;

  -- A metrics event; "values" has a float64, little-endian, for each name of its list.
  CREATE TABLE metric_rows (
    log INTEGER NOT NULL REFERENCES logs,
    seq INTEGER NOT NULL,
    update_number INTEGER NOT NULL,
    step INTEGER NOT NULL,
    time_ms INTEGER NOT NULL,
    list INTEGER NOT NULL REFERENCES metric_lists,
    -- The length of its lines as CSV.
    csv_bytes INTEGER NOT NULL,
    "values" BLOB NOT NULL,
    PRIMARY KEY (log, seq)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX metric_rows_by_update ON metric_rows (log, update_number, step);

  -- Where the line of an event is in its log. name: the number of an evaluation, the name of a checkpoint.
  CREATE TABLE event_places (
    log INTEGER NOT NULL REFERENCES logs,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    update_number INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    start INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    PRIMARY KEY (log, kind, name)
  ) STRICT, WITHOUT ROWID;
  `,
  `
  -- What happened to runs, for GET /v1/events; only the newest are kept.
  CREATE TABLE fleet_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    time TEXT NOT NULL,
    kind TEXT NOT NULL,
    run TEXT NOT NULL,
    state TEXT NOT NULL
  ) STRICT;
  `,
  `
  -- What fleet_events has of a run: its states up to the event told_seq of its log, the last of them "state".
  CREATE TABLE told_runs (
    run TEXT PRIMARY KEY,
    told_seq INTEGER NOT NULL,
    state TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;
  -- Without such rows all runs are published anew.
  DELETE FROM fleet_events;

  -- Requests with an Idempotency-Key, with the run that each created and its first answer, as JSON.
  CREATE TABLE kept_answers (
    key TEXT PRIMARY KEY,
    body_sha256 TEXT NOT NULL,
    run TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX kept_answers_by_time ON kept_answers (created_ms);
  `,
  `
  -- The states of a run are published (stored in fleet_events) up to the event published_seq of its log; the last of
  -- them is "state".
  ALTER TABLE told_runs RENAME TO published_runs;
  ALTER TABLE published_runs RENAME COLUMN told_seq TO published_seq;
  `,
];

/** How long a statement waits for a lock of another process, such as the `sqlite3` program. */
const BUSY_TIMEOUT_MS = 5000;

/** SQLite's codes of a damaged file: SQLITE_CORRUPT and SQLITE_NOTADB. */
const DAMAGED_CODES = [11, 26];

export interface OpenDatabaseOptions {
  clock: Clock;
  log: (line: Record<string, unknown>) => void;
}

/** A connection with cached statements. All calls are synchronous, so each must be short. */
export class Database {
  readonly #sql: DatabaseSync;
  readonly #statements = new Map<string, StatementSync>();

  constructor(sql: DatabaseSync) {
    this.#sql = sql;
  }

  /** The rows of a query. */
  all<T>(query: string, ...values: SQLInputValue[]): T[] {
    return this.#statement(query).all(...values) as T[];
  }

  /** The first row of a query; undefined without one. */
  get<T>(query: string, ...values: SQLInputValue[]): T | undefined {
    return this.#statement(query).get(...values) as T | undefined;
  }

  /** Runs a statement. @returns The number of rows that it changed. */
  run(statement: string, ...values: SQLInputValue[]): number {
    return Number(this.#statement(statement).run(...values).changes);
  }

  /** Makes all changes of `body`, or none. They are on the disk when it returns. `body` must be synchronous. */
  transaction<T>(body: () => T): T {
    this.#sql.exec("BEGIN IMMEDIATE");
    try {
      const result = body();
      this.#sql.exec("COMMIT");
      return result;
    } catch (error) {
      if (this.#sql.isTransaction) this.#sql.exec("ROLLBACK");
      throw error;
    }
  }

  /** Like {@link transaction}, without the wait for the disk: for rows that can be rebuilt after a power cut. */
  rebuildable<T>(body: () => T): T {
    this.#sql.exec("PRAGMA synchronous = NORMAL");
    try {
      return this.transaction(body);
    } finally {
      this.#sql.exec("PRAGMA synchronous = FULL");
    }
  }

  close(): void {
    this.#statements.clear();
    this.#sql.close();
  }

  #statement(query: string): StatementSync {
    let statement = this.#statements.get(query);
    if (!statement) this.#statements.set(query, statement = this.#sql.prepare(query));
    return statement;
  }
}

/**
 * Opens or creates the database. A damaged file is moved aside with a line in the log, and an empty database takes its
 * place; its folder must exist.
 *
 * @param path Null: a database in memory.
 * @throws {ServiceError} `conflict` for the database of a newer build, or an operating failure.
 */
export function openDatabase(path: string | null, options: OpenDatabaseOptions): Database {
  try {
    return new Database(connect(path ?? ":memory:"));
  } catch (error) {
    if (path === null || !isDamage(error)) throw asFailure(path, error);
    const aside = moveAside(path, options.clock);
    const message = `The index ${path} is damaged; it is now ${aside}, and a new one is built from the logs`;
    options.log({ level: "warning", message });
    return new Database(connect(path));
  }
}

function connect(path: string): DatabaseSync {
  const sql = new DatabaseSync(path, { timeout: BUSY_TIMEOUT_MS });
  try {
    // Only prepared statements throw errors with SQLite's code.
    for (const pragma of ["journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"]) {
      sql.prepare(`PRAGMA ${pragma}`).get();
    }
    const { quick_check } = sql.prepare("PRAGMA quick_check(1)").get() as { quick_check: string };
    if (quick_check !== "ok") throw Object.assign(new Error(quick_check), { errcode: DAMAGED_CODES[0] });
    migrate(sql, path);
    return sql;
  } catch (error) {
    sql.close();
    throw error;
  }
}

function migrate(sql: DatabaseSync, path: string): void {
  const { user_version } = sql.prepare("PRAGMA user_version").get() as { user_version: number };
  if (user_version > MIGRATIONS.length) {
    throw new ServiceError(
      "conflict",
      `Cannot open ${path}: its schema has version ${user_version}, and this build knows ${MIGRATIONS.length}; ` +
        "start the build that wrote it, or move the file away: a new one is built from the logs",
      { path },
    );
  }
  for (let version = user_version; version < MIGRATIONS.length; version++) {
    sql.exec(`BEGIN IMMEDIATE; ${MIGRATIONS[version]}; PRAGMA user_version = ${version + 1}; COMMIT`);
  }
}

function isDamage(error: unknown): boolean {
  const code = (error as { errcode?: unknown } | null)?.errcode;
  // The low byte of an extended code is the code itself.
  return typeof code === "number" && DAMAGED_CODES.includes(code & 0xff);
}

/** Renames the file and its journals. @returns The new name. */
function moveAside(path: string, clock: Clock): string {
  const aside = `${path}.damaged-${timestamp(clock).replaceAll(":", "-")}`;
  for (const ending of ["", "-wal", "-shm"]) {
    try {
      Deno.renameSync(path + ending, aside + ending);
    } catch (error) {
      assert(ending !== "" || !(error instanceof Deno.errors.NotFound), "the damaged file exists");
      if (!(error instanceof Deno.errors.NotFound)) throw systemError(`rename ${path}${ending}`, error);
    }
  }
  return aside;
}

function asFailure(path: string | null, error: unknown): unknown {
  if (!(error instanceof Error) || (error as { code?: unknown }).code !== "ERR_SQLITE_ERROR") return error;
  const message = `Cannot open the index ${path ?? "in memory"}: ${error.message}`;
  return new ServiceError("internal", message, {}, { cause: error });
}
