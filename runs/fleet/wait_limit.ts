/** Work with a time limit that its caller can also cancel. */

import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";

export interface WaitLimit {
  timeout_ms: number;
  /** Aborts when the caller does not want the answer any more. */
  signal: AbortSignal;
}

/**
 * Runs work whose signal aborts when the time is up or the caller's signal aborts.
 *
 * @throws {ServiceError} `cancelled` with `details.is_late` when the time is up; the error of the work.
 */
export function withTimeout<T>(
  doing: string,
  limit: WaitLimit & { clock: Clock },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const message = `Cannot ${doing}: there is no answer after ${limit.timeout_ms / 1000} seconds`;
  const late = () => new ServiceError("cancelled", message, { is_late: true });
  return withinTime({ ...limit, late }, work);
}

/** Like {@link withTimeout}; when the time is up, `late` gives the reason of the abort. */
export async function withinTime<T>(
  { timeout_ms, signal, clock, late }: WaitLimit & { clock: Clock; late: () => unknown },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController(), timer = new AbortController();
  clock.sleep(timeout_ms, timer.signal).then(() => limit.abort(late()), () => {});
  try {
    return await work(AbortSignal.any([signal, limit.signal]));
  } finally {
    timer.abort();
  }
}

/** Waits for a promise. @throws The signal's reason when it aborts first. */
export async function abortable<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>(), abort = () => aborted.reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([promise, aborted.promise]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
