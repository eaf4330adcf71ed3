/** Waits that end with a signal. */

/** Settles like the work, or rejects with the signal's reason when it aborts first. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stop = new AbortController();
  const aborted = new Promise<never>((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true, signal: stop.signal });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    stop.abort();
  }
}
