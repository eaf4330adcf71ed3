/** Pages of the key/value cache and their reference counts. A page with several holders is never written. */

import { assert, ServiceError } from "../../core/errors.ts";

/** Counts the holders of numbered items and allocates free ones: those that were held before come first. */
export class ReferencePool {
  readonly #holders: Uint32Array;
  /** Items that were held, the last one that became free at the end. */
  readonly #free: number[] = [];
  #extent = 0;

  constructor(readonly size: number, readonly what: string) {
    this.#holders = new Uint32Array(size);
  }

  /** All held items are below this number. It is 0 when none is held, and otherwise does not decrease. */
  get extent(): number {
    return this.#extent;
  }

  get used(): number {
    return this.#extent - this.#free.length;
  }

  get available(): number {
    return this.size - this.used;
  }

  /** Allocates an item with one holder. @throws {ServiceError} `out_of_memory` when all are in use. */
  take(): number {
    if (this.available === 0) {
      throw new ServiceError("out_of_memory", `Cannot hold more than ${this.size} ${this.what} at a time`);
    }
    const index = this.#free.pop() ?? this.#extent++;
    this.#holders[index] = 1;
    return index;
  }

  /** Adds a holder. */
  share(index: number): number {
    assert(this.#holders[index]! > 0, `${this.what} ${index} is held`);
    this.#holders[index]!++;
    return index;
  }

  isShared(index: number): boolean {
    return this.#holders[index]! > 1;
  }

  /** Removes a holder; the item is free after its last. */
  release(index: number): void {
    assert(this.#holders[index]! > 0, `${this.what} ${index} is held`);
    if (--this.#holders[index]! > 0) return;
    this.#free.push(index);
    if (this.used === 0) this.#free.length = this.#extent = 0;
  }
}
