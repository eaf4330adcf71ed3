/** The places, in the logs of runs, of the events that are looked up by name. */

import type { Database } from "./database.ts";

export interface EventPlace {
  /** The number of the evaluation, or the checkpoint's name. */
  name: string;
  update: number;
  seq: number;
  start: number;
  bytes: number;
}

/** The events of a kind that a run's log has, newest first. */
export function eventPlaces(
  database: Database,
  run: string,
  kind: "evaluation" | "checkpoint",
): EventPlace[] {
  const query = 'SELECT name, update_number AS "update", seq, start, bytes FROM event_places ' +
    "WHERE log = (SELECT log FROM logs WHERE run = ?) AND kind = ? ORDER BY seq DESC";
  return database.all(query, run, kind);
}
