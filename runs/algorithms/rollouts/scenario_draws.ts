/** Chooses the scenarios of each update: without replacement, in a new order in each epoch. */

import { assert } from "../../../core/errors.ts";
import { Rng, rngKey } from "../../../core/random.ts";

/**
 * The sequence of scenarios of a run. No update contains a scenario twice: a repetition at the border of two epochs
 * waits for the next update. Everything follows from the seed and the number of examples seen so far.
 */
export class ScenarioDraws {
  readonly #order: number[] = [];
  #epoch = 0;
  #examples_seen = 0;

  /** @param examples_seen The number that an earlier process used, `per_update` at a time. */
  constructor(
    readonly options: { count: number; per_update: number; seed: number },
    examples_seen: number,
  ) {
    const { count, per_update } = options;
    assert(per_update <= count, `${per_update} scenarios of ${count} in an update`);
    assert(examples_seen % per_update === 0, `${examples_seen} examples seen, ${per_update} in an update`);
    while (this.#examples_seen < examples_seen) this.next();
  }

  /** Scenarios used so far. */
  get examples_seen(): number {
    return this.#examples_seen;
  }

  /** The next update's scenarios, by their positions in the file. */
  next(): number[] {
    const { count, per_update, seed } = this.options;
    if (this.#order.length < per_update) {
      const all = Array.from({ length: count }, (_, i) => i);
      this.#order.push(...new Rng(rngKey(seed, "scenarios", this.#epoch++)).shuffle(all));
    }
    const taken: number[] = [];
    for (let at = 0; taken.length < per_update;) {
      if (taken.includes(this.#order[at]!)) at++;
      else taken.push(this.#order.splice(at, 1)[0]!);
    }
    this.#examples_seen += per_update;
    return taken;
  }
}
