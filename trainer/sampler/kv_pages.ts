/** Pages of the key/value cache and their reference counts. A page with several holders is never written. */

import { assert, ServiceError } from "../../core/errors.ts";

/** Counts the holders of numbered items and allocates free ones, the lowest first. */
export class ReferencePool {
  readonly #holders: Uint32Array;
  readonly #free: number[];

  constructor(readonly size: number, readonly what: string) {
    this.#holders = new Uint32Array(size);
    this.#free = Array.from({ length: size }, (_, i) => size - 1 - i);
  }

  get used(): number {
    return this.size - this.#free.length;
  }

  get available(): number {
    return this.#free.length;
  }

  /** Allocates an item with one holder. @throws {ServiceError} `out_of_memory` when all are in use. */
  take(): number {
    const index = this.#free.pop();
    if (index === undefined) {
      throw new ServiceError("out_of_memory", `Cannot hold more than ${this.size} ${this.what} at a time`);
    }
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
    if (--this.#holders[index]! === 0) this.#free.push(index);
  }
}
