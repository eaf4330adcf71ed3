/** The events of all runs: created, changed, deleted. They have numbers of their own and outlive the server. */

import { type Clock, timestamp } from "../../core/clock.ts";
import type { FleetChange } from "../../runs/fleet/run_keeper.ts";
import type { RunState } from "../../runs/record/run.ts";
import type { Database } from "./database.ts";

/** The number of events that are kept. */
export const KEPT_EVENTS = 10_000;

/** Events of an answer's piece. */
const PIECE_EVENTS = 500;

/** The event of a run's log that `created` tells: every run begins as `queued`. */
export const CREATED_SEQ = 1;

/** The kinds of these events. */
export const FLEET_EVENT_KINDS = ["created", "state", "deleted"] as const;

/** An event of some run. */
export interface FleetEvent {
  seq: number;
  time: string;
  kind: typeof FLEET_EVENT_KINDS[number];
  run: string;
  /** The run's state from then on; the last one of a deleted run. */
  state: string;
}

/** What readers have been told of a run. */
export interface ToldRun {
  run: string;
  /** The event of its log up to which all changes of its state are told. */
  told_seq: number;
  state: RunState;
}

/** An event before it is numbered. */
type Told = Pick<FleetEvent, "kind" | "time"> & Omit<ToldRun, "run">;

export class FleetEvents {
  readonly #database: Database;
  readonly #clock: Clock;
  #waiting: PromiseWithResolvers<void> = Promise.withResolvers();
  #is_closed = false;

  constructor(database: Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  /** The number of the newest event; 0 before the first one. */
  get last_seq(): number {
    const query = "SELECT seq FROM sqlite_sequence WHERE name = 'fleet_events'";
    return this.#database.get<{ seq: number }>(query)?.seq ?? 0;
  }

  /** The number of the oldest event that is kept; null without any. */
  get first_seq(): number | null {
    return this.#database.get<{ seq: number | null }>("SELECT min(seq) AS seq FROM fleet_events")?.seq ??
      null;
  }

  /** The runs that were created for readers, and not deleted. */
  told(): ToldRun[] {
    return this.#database.all("SELECT run, told_seq, state FROM told_runs");
  }

  /**
   * Stores what a change means for readers of all runs, together with how far the run is then told: what they have been
   * told already is left out.
   */
  add(change: FleetChange): void {
    const { run } = change;
    const told = this.#database.get<ToldRun>("SELECT run, told_seq, state FROM told_runs WHERE run = ?", run);
    const events = newEvents(change, { told: told ?? null, now: timestamp(this.#clock) });
    if (events.length === 0) return;
    this.#database.transaction(() => {
      for (const { kind, time, state } of events) {
        const insert = "INSERT INTO fleet_events (time, kind, run, state) VALUES (?, ?, ?, ?)";
        this.#database.run(insert, time, kind, run, state);
      }
      this.#database.run("DELETE FROM fleet_events WHERE seq <= ?", this.last_seq - KEPT_EVENTS);
      const { told_seq, state } = events.at(-1)!;
      if (change.kind === "deleted") this.#database.run("DELETE FROM told_runs WHERE run = ?", run);
      else this.#database.run("INSERT OR REPLACE INTO told_runs VALUES (?, ?, ?)", run, told_seq, state);
    });
    this.#wake();
  }

  /** Ends all readers when they have what is stored. */
  close(): void {
    this.#is_closed = true;
    this.#wake();
  }

  #wake(): void {
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }

  /**
   * The events after one of them, in order, in pieces; then those to come, until the signal aborts or there are no more.
   */
  async *follow(since: number, signal: AbortSignal): AsyncGenerator<FleetEvent[]> {
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve(), { once: true });
    let at = since;
    while (!signal.aborted) {
      const query = "SELECT seq, time, kind, run, state FROM fleet_events WHERE seq > ? ORDER BY seq LIMIT ?";
      const waiting = this.#waiting.promise;
      const piece = this.#database.all<FleetEvent>(query, at, PIECE_EVENTS);
      if (piece.length > 0) {
        at = piece.at(-1)!.seq;
        yield piece.map((event) => ({ ...event }));
      } else if (this.#is_closed) return;
      else await Promise.race([waiting, aborted]);
    }
  }
}

/** The events of a change that readers have not been told. Nothing is told of a run before its creation. */
function newEvents(change: FleetChange, { told, now }: { told: ToldRun | null; now: string }): Told[] {
  if (change.kind === "created") {
    return told ? [] : [{ kind: "created", time: now, told_seq: CREATED_SEQ, state: change.state }];
  }
  if (!told) return [];
  if (change.kind === "deleted") return [{ ...told, kind: "deleted", time: now, state: change.state }];
  return change.events.flatMap((event): Told[] => {
    if (event.kind !== "state" || event.seq <= told.told_seq) return [];
    return [{ kind: "state", time: event.time, told_seq: event.seq, state: event.state }];
  });
}
