/** When a refused or failed request is sent again. */

import type { Rng } from "../random.ts";

/** The longest wait before a retry, also where the endpoint asks for a longer one. */
export const MAX_RETRY_WAIT_MS = 60_000;

/** The longest wait before the first retry; it doubles with every further one. */
const FIRST_WAIT_MS = 1000;

const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Whether an answer with this status may be another one next time. */
export function isRetryable(status: number): boolean {
  return status === 408 || status === 429 || status >= 500;
}

/**
 * The milliseconds that a `Retry-After` asks to wait, as seconds or as a date: 0 for one that has passed, infinity for
 * more than a number holds; null when it says neither.
 *
 * @param now_ms Since the epoch.
 */
export function retryAfterMs(header: string, now_ms: number): number | null {
  if (/^\d+$/.test(header)) return Number(header) * 1000;
  const date_ms = HTTP_DATE.test(header) ? Date.parse(header) : NaN;
  return Number.isNaN(date_ms) ? null : Math.max(0, date_ms - now_ms);
}

/**
 * The wait before retry `retry`, from 0: between half and all of a time that doubles, or longer where the endpoint asks
 * for it, and never above {@link MAX_RETRY_WAIT_MS}.
 *
 * @param asked_ms What `Retry-After` asks for; null: nothing.
 */
export function retryWaitMs(retry: number, asked_ms: number | null, rng: Rng): number {
  const backoff_ms = FIRST_WAIT_MS * 2 ** retry * (0.5 + rng.uniform() / 2);
  return Math.min(MAX_RETRY_WAIT_MS, Math.max(backoff_ms, asked_ms ?? 0));
}
