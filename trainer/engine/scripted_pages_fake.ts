/** Counts the pages of a key/value cache and their holders, without their contents. */

import { assert, ServiceError } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";

export class PageTable {
  readonly #references: number[] = [];
  readonly #free: number[] = [];

  constructor(readonly total: number) {}

  get used(): number {
    return this.#references.length - this.#free.length;
  }

  /** Grows or shrinks the pages of a sequence to hold `length` tokens. */
  resize(pages: number[], length: number): void {
    const wanted = Math.ceil(length / PAGE_TOKENS);
    while (pages.length > wanted) this.#release(pages.pop()!);
    if (wanted - pages.length > this.total - this.used) {
      throw new ServiceError("out_of_memory", `Cannot hold ${length} tokens: the cache of pages is full`);
    }
    while (pages.length < wanted) pages.push(this.#take());
  }

  /** Shares the full pages of a parent with `length` tokens. The child copies the last, partial page itself. */
  share(pages: readonly number[], length: number): number[] {
    const shared = pages.slice(0, Math.floor(length / PAGE_TOKENS));
    for (const page of shared) this.#references[page]!++;
    return shared;
  }

  #take(): number {
    const page = this.#free.pop() ?? this.#references.length;
    this.#references[page] = 1;
    return page;
  }

  #release(page: number): void {
    assert(this.#references[page]! > 0, "a page is given back once");
    if (--this.#references[page]! === 0) this.#free.push(page);
  }
}
