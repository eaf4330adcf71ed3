/** A queue with one producer and one consumer that waits. */

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
