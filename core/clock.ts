/** Time as an input: the program uses the system clock, tests use a manual one. */

/** Code that waits or measures takes a clock instead of calling `Date` and `setTimeout`. */
export interface Clock {
  /** Milliseconds since the epoch; may jump. */
  wall_ms(): number;
  /** Milliseconds since some start; never goes back. Budgets and durations use it. */
  monotonic_ms(): number;
  /** Resolves after `delay_ms`; rejects with the signal's reason when it aborts first. */
  sleep(delay_ms: number, signal?: AbortSignal): Promise<void>;
}

/** The system clock. Its timers can be aborted. */
export const systemClock: Clock = {
  wall_ms: () => Date.now(),
  monotonic_ms: () => performance.now(),
  sleep(delay_ms, signal) {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", abort);
        resolve();
      }, delay_ms);
      const abort = () => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
    });
  },
};

/** RFC 3339, UTC, with milliseconds. */
export function timestamp(clock: Clock): string {
  return new Date(clock.wall_ms()).toISOString();
}
