/** Requests that wait for their answers, by number. */

/** Pairs answers with requests: a request gets the next number, and its answer names it. */
export class PendingRequests<W> {
  readonly #waiting = new Map<unknown, W>();
  #next = 1;

  /** The requests that wait. */
  get size(): number {
    return this.#waiting.size;
  }

  /** Adds a request; returns its number, from 1. */
  add(waiting: W): number {
    const id = this.#next++;
    this.#waiting.set(id, waiting);
    return id;
  }

  /** The request with a number, which goes on waiting; undefined for anything else. */
  get(id: unknown): W | undefined {
    return this.#waiting.get(id);
  }

  /** Like {@link get}, and the request waits no longer. */
  take(id: unknown): W | undefined {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    return waiting;
  }

  /** Takes all requests, in their order. */
  takeAll(): W[] {
    const all = [...this.#waiting.values()];
    this.#waiting.clear();
    return all;
  }
}
