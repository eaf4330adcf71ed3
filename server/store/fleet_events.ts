/** The events of all runs: created, changed, deleted. They have numbers of their own, and are stored in the database. */

import { type Clock, timestamp } from "../../core/clock.ts";
import { Waiters } from "../../core/waiters.ts";
import type { FleetChange } from "../../runs/fleet/run_lifecycle.ts";
import type { RunState } from "../../runs/record/run.ts";
import type { Database } from "./database.ts";

/** The number of events that are kept. */
export const KEPT_EVENTS = 10_000;

/** The most events of a piece for a reader. */
const PIECE_EVENTS = 500;

/** The number of the event in a run's log that `created` represents: every run begins as `queued`. */
export const CREATED_SEQ = 1;

/** The kinds of these events. */
const FLEET_EVENT_KINDS = ["created", "state", "deleted"] as const;

/** An event of some run. */
export interface FleetEvent {
  seq: number;
  time: string;
  kind: typeof FLEET_EVENT_KINDS[number];
  run: string;
  /** The run's state after the event; for a deleted run its last state. */
  state: string;
}

/** How far the states of a run are published, which means stored as events of all runs. */
export interface PublishedRun {
  run: string;
  /** The event of its log up to which all changes of its state are published. */
  published_seq: number;
  /** The state that was published last. */
  state: RunState;
}

/** An event without its number. */
type NewEvent = Pick<FleetEvent, "kind" | "time"> & Omit<PublishedRun, "run">;

export class FleetEvents {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #readers = new Waiters();
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

  /** The runs whose creation is published, and whose deletion is not. */
  published(): PublishedRun[] {
    return this.#database.all("SELECT run, published_seq, state FROM published_runs");
  }

  /**
   * Stores the events of a change, together with how far the run is then published. Events that are already stored are
   * left out.
   */
  add(change: FleetChange): void {
    const { run } = change;
    const query = "SELECT run, published_seq, state FROM published_runs WHERE run = ?";
    const published = this.#database.get<PublishedRun>(query, run) ?? null;
    const events = newEvents(change, { published, now: timestamp(this.#clock) });
    if (events.length === 0) return;
    this.#database.transaction(() => {
      for (const { kind, time, state } of events) {
        const insert = "INSERT INTO fleet_events (time, kind, run, state) VALUES (?, ?, ?, ?)";
        this.#database.run(insert, time, kind, run, state);
      }
      this.#database.run("DELETE FROM fleet_events WHERE seq <= ?", this.last_seq - KEPT_EVENTS);
      const { published_seq, state } = events.at(-1)!;
      if (change.kind === "deleted") this.#database.run("DELETE FROM published_runs WHERE run = ?", run);
      else {
        const insert = "INSERT OR REPLACE INTO published_runs VALUES (?, ?, ?)";
        this.#database.run(insert, run, published_seq, state);
      }
    });
    this.#wake();
  }

  /** Ends all readers after the last stored event. */
  close(): void {
    this.#is_closed = true;
    this.#wake();
  }

  #wake(): void {
    this.#readers.wake();
  }

  /**
   * The events after the one with a number, in order and in pieces, then new events as they are stored. Ends when the
   * signal aborts or the events are closed.
   */
  async *follow(since: number, signal: AbortSignal): AsyncGenerator<FleetEvent[]> {
    let at = since;
    while (!signal.aborted) {
      const query = "SELECT seq, time, kind, run, state FROM fleet_events WHERE seq > ? ORDER BY seq LIMIT ?";
      const piece = this.#database.all<FleetEvent>(query, at, PIECE_EVENTS);
      if (piece.length > 0) {
        at = piece.at(-1)!.seq;
        yield piece.map((event) => ({ ...event }));
      } else if (this.#is_closed) return;
      else await this.#readers.wait(signal);
    }
  }
}

/** The events of a change that are not published yet. A run has none before its creation. */
function newEvents(
  change: FleetChange,
  { published, now }: { published: PublishedRun | null; now: string },
): NewEvent[] {
  if (change.kind === "created") {
    return published ? [] : [{ kind: "created", time: now, published_seq: CREATED_SEQ, state: change.state }];
  }
  if (!published) return [];
  if (change.kind === "deleted") return [{ ...published, kind: "deleted", time: now, state: change.state }];
  return change.events.flatMap((event): NewEvent[] => {
    if (event.kind !== "state" || event.seq <= published.published_seq) return [];
    return [{ kind: "state", time: event.time, published_seq: event.seq, state: event.state }];
  });
}
