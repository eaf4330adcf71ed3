/** Which scenarios an update takes: without replacement, in an order of its own for each epoch. */

import { assert } from "../../../core/errors.ts";
import { Rng, rngKey } from "../../../core/random.ts";

/**
 * The draws of a run, from the first on. No update has a scenario twice: one that would come again at the border of
 * two epochs waits for the next update. Everything follows from the seed and the number drawn so far.
 */
export class ScenarioDraws {
  readonly #order: number[] = [];
  #epoch = 0;
  #examples_seen = 0;

  /**
   * @param examples_seen How many an earlier process drew, `per_update` at a time.
   */
  constructor(
    readonly options: { count: number; per_update: number; seed: number },
    examples_seen: number,
  ) {
    const { count, per_update } = options;
    assert(per_update <= count, `${per_update} scenarios of ${count} in an update`);
    assert(examples_seen % per_update === 0, `${examples_seen} scenarios drawn, ${per_update} at a time`);
    while (this.#examples_seen < examples_seen) this.next();
  }

  /** Scenarios drawn so far. */
  get examples_seen(): number {
    return this.#examples_seen;
  }

  /** The positions in the file of the next update's scenarios. */
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
