/** A queue with one producer and one consumer that waits. */

import { ServiceError } from "./errors.ts";

/** A queue whose producer never waits and whose consumer iterates. The iterator ends when the queue is closed. */
export class AsyncQueue<T> implements AsyncIterable<T> {
  readonly #items: T[] = [];
  #wake: () => void = () => {};
  #closed = false;
  #error: unknown = null;

  push(...items: T[]): void {
    this.#items.push(...items);
    this.#wake();
  }

  /** Ends the iteration after the items that were pushed. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  /** Ends the iteration with an error. */
  fail(error: unknown): void {
    this.#error = error;
    this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void> {
    while (true) {
      while (this.#items.length > 0) yield this.#items.shift()!;
      if (this.#error !== null) throw this.#error;
      if (this.#closed) return;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}

/**
 * The items that work pushes, as they arrive, and then its answer. Leaving the iteration early aborts the signal of the
 * work and waits for its end.
 */
export async function* streamed<T, A>(
  work: (push: (item: T) => void, signal: AbortSignal) => Promise<A>,
  signal: AbortSignal,
): AsyncGenerator<T, A, void> {
  const items = new AsyncQueue<T>(), left = new AbortController();
  const answered = work((item) => items.push(item), AbortSignal.any([signal, left.signal]));
  answered.then(() => items.close(), (error) => items.fail(error));
  try {
    yield* items;
    return await answered;
  } finally {
    left.abort(new ServiceError("cancelled", "Cannot finish: nobody waits for it any more"));
    await answered.catch(() => {});
  }
}
