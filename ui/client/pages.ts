/** A list that the server gives page by page. */

import { signal } from "@preact/signals";

/** A page of a list. */
export interface Page<T> {
  items: readonly T[];
  next_cursor: string | null;
}

/** Asks for the page at a cursor; null for the first. */
export type AskPage<T> = (cursor: string | null, signal: AbortSignal) => Promise<Page<T>>;

/** Collects the pages of a list, one request at a time. */
export class PagedItems<T> {
  readonly items = signal<readonly T[]>([]);
  /** Whether the last page is there. */
  readonly is_done = signal(false);
  readonly is_busy = signal(false);
  /** Why the last request failed; null when it did not. */
  readonly error = signal<unknown>(null);
  readonly #ask: AskPage<T>;
  readonly #abort = new AbortController();
  #cursor: string | null = null;

  constructor(ask: AskPage<T>) {
    this.#ask = ask;
  }

  /**
   * Asks for further pages until there are `least` more items, or the last page is there. Does nothing while a request is
   * under way. A failed request stops it; the next call asks for the same page again.
   */
  async more(least = 1): Promise<void> {
    if (this.is_busy.value || this.is_done.value) return;
    const { signal } = this.#abort, wanted = this.items.value.length + least;
    this.is_busy.value = true;
    this.error.value = null;
    try {
      while (!this.is_done.value && this.items.value.length < wanted) {
        const { items, next_cursor } = await this.#ask(this.#cursor, signal);
        if (signal.aborted) return;
        this.#cursor = next_cursor;
        this.items.value = [...this.items.value, ...items];
        this.is_done.value = next_cursor === null;
      }
    } catch (error) {
      if (!signal.aborted) this.error.value = error;
    } finally {
      this.is_busy.value = false;
    }
  }

  /** Ends a request that is under way. Nothing changes after it. */
  close(): void {
    this.#abort.abort();
  }
}
