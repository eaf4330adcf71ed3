/** Seconds of device work, without the wait that every readback has. */

import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";

/** How long and how often a measurement runs. */
export interface Effort {
  /** Work of one submit. */
  busy_ms: number;
  repetitions: number;
}

/** Dispatches of one submit at most: their parameters share one buffer of the recorder. */
const MAX_DISPATCHES = 2048;

/** A submit is not told from an empty one more finely than this. */
const SHORTEST_MS = 0.05;

/** Times what a recorder records; everything runs on one device. */
export class Stopwatch {
  readonly #flag: Tensor;

  /** @param flag Any small tensor: reading it waits for all that was submitted. */
  constructor(readonly recorder: Recorder, flag: Tensor, readonly effort: Effort) {
    this.#flag = flag;
  }

  /**
   * Seconds of one call of `record`: the fastest of some submits of many calls, less the fastest empty submit.
   *
   * @param record Records the i-th call.
   * @param dispatches Dispatches of a call.
   */
  async seconds(record: (i: number) => void, dispatches = 1): Promise<number> {
    const { busy_ms, repetitions } = this.effort, most = Math.max(1, Math.floor(MAX_DISPATCHES / dispatches));
    await this.#submit(record, 1);
    let idle = await this.#submit(record, 0), calls = 1, busy = 0;
    while (true) {
      // A first try tells how many calls fill the time; only tries that do are repeated.
      busy = await this.#submit(record, calls) - idle;
      if (busy >= busy_ms / 2 || calls === most) {
        for (let i = 0; i < repetitions; i++) {
          idle = Math.min(idle, await this.#submit(record, 0));
          busy = Math.min(busy, await this.#submit(record, calls) - idle);
        }
        if (busy >= busy_ms / 4 || calls === most) break;
      }
      calls = Math.min(most, Math.ceil(calls * Math.max(2, busy_ms / Math.max(busy, busy_ms / 16))));
    }
    return Math.max(busy, SHORTEST_MS) / calls / 1000;
  }

  /** The same for another recorder of the device. */
  on(recorder: Recorder): Stopwatch {
    return new Stopwatch(recorder, this.#flag, this.effort);
  }

  /** Milliseconds from an empty submit to its readback, the middle of some. */
  async fence_ms(repetitions: number): Promise<number> {
    const all: number[] = [];
    for (let i = 0; i < repetitions; i++) all.push(await this.#submit(() => {}, 0));
    return median(all);
  }

  async #submit(record: (i: number) => void, calls: number): Promise<number> {
    const start = performance.now();
    for (let i = 0; i < calls; i++) record(i);
    await this.recorder.submitAndRead([this.#flag]);
    return performance.now() - start;
  }
}

/** The middle value; the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}
