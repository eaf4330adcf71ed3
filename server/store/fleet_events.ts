/** The events of all runs: created, changed, deleted. They have numbers of their own and outlive the server. */

import { type Clock, timestamp } from "../../core/clock.ts";
import type { FleetChange } from "../../runs/fleet/run_keeper.ts";
import type { Database } from "./database.ts";

/** The number of events that are kept. */
export const KEPT_EVENTS = 10_000;

/** Events of an answer's piece. */
const PIECE_EVENTS = 500;

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

export class FleetEvents {
  readonly #database: Database;
  readonly #clock: Clock;
  #waiting: PromiseWithResolvers<void> = Promise.withResolvers();

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

  /** Stores what a change means for readers of all runs. */
  add(change: FleetChange): void {
    const events = eventsOf(change);
    if (events.length === 0) return;
    const time = timestamp(this.#clock);
    this.#database.transaction(() => {
      for (const { kind, state } of events) {
        const insert = "INSERT INTO fleet_events (time, kind, run, state) VALUES (?, ?, ?, ?)";
        this.#database.run(insert, time, kind, change.run, state);
      }
      this.#database.run("DELETE FROM fleet_events WHERE seq <= ?", this.last_seq - KEPT_EVENTS);
    });
    this.#waiting.resolve();
    this.#waiting = Promise.withResolvers();
  }

  /** The events after one of them, in order, in pieces; then those to come, until the signal aborts. */
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
      } else await Promise.race([waiting, aborted]);
    }
  }
}

function eventsOf(change: FleetChange): Pick<FleetEvent, "kind" | "state">[] {
  if (change.kind !== "events") return [change];
  return change.events.flatMap((event) =>
    event.kind === "state" ? [{ kind: "state" as const, state: event.state }] : []
  );
}
