/** The stored answers to requests with an Idempotency-Key. They remain when the created runs are deleted. */

import type { Database } from "./database.ts";

/** How long the answer to a request with a key is kept. */
const KEPT_MS = 24 * 3_600_000;

export interface KeptAnswer {
  key: string;
  /** Of the request's body. */
  body_sha256: string;
  /** The run that the request created. */
  run: string;
  /** The first answer, as JSON. */
  answer: string;
  /** The time of the request. */
  created_ms: number;
}

/** Whether the answer to a request of this time is still kept. */
export function isKept({ created_ms }: Pick<KeptAnswer, "created_ms">, now_ms: number): boolean {
  return now_ms - created_ms < KEPT_MS;
}

/** The answer to an earlier request with a key; null when there is none, or when it is too old. */
export function keptAnswer(database: Database, key: string, now_ms: number): KeptAnswer | null {
  const query = "SELECT key, body_sha256, run, answer, created_ms FROM kept_answers WHERE key = ?";
  const found = database.get<KeptAnswer>(query, key);
  return found && isKept(found, now_ms) ? found : null;
}

/** Stores an answer unless its key has one, and removes those that are too old. It is on the disk when this returns. */
export function keepAnswer(database: Database, kept: KeptAnswer, now_ms: number): void {
  const { key, body_sha256, run, answer, created_ms } = kept;
  database.transaction(() => {
    database.run("DELETE FROM kept_answers WHERE created_ms <= ?", now_ms - KEPT_MS);
    const insert = "INSERT OR IGNORE INTO kept_answers VALUES (?, ?, ?, ?, ?)";
    database.run(insert, key, body_sha256, run, answer, created_ms);
  });
}
