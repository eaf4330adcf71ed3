/** Seconds of device work, without the wait that every readback has. */

import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";

/** How long and how often a measurement runs. */
export interface Effort {
  /** Work of one submit. */
  busy_ms: number;
  repetitions: number;
}

/** Dispatches of a submit, about: the device works on one while the next is recorded. */
const SUBMIT_DISPATCHES = 256;
/** Dispatches of a measurement at most. */
const MAX_DISPATCHES = 16_384;

/** Work is not told from a wait more finely than this. */
const SHORTEST_MS = 0.05;

/** Times what a recorder records; everything runs on one device. */
export class Stopwatch {
  /**
   * @param options flag: any small tensor; reading it waits for all that was submitted. expectSound: throws when the
   * device has failed, for then a time would mean nothing. now: a clock in milliseconds.
   */
  constructor(
    readonly recorder: Recorder,
    readonly options: { flag: Tensor; effort: Effort; expectSound: () => void; now?: () => number },
  ) {}

  /**
   * Seconds of one call of `record`: the fastest of some runs of many calls, less the fastest empty submit. A kernel
   * that is faster than the host records it takes the host's time.
   *
   * @param record Records the i-th call.
   * @param dispatches Dispatches of a call.
   */
  async seconds(record: (i: number) => void, dispatches = 1): Promise<number> {
    const { busy_ms, repetitions } = this.options.effort;
    const most = Math.max(1, Math.floor(MAX_DISPATCHES / dispatches));
    const run = (calls: number) => this.#run(record, calls, dispatches);
    await run(1);
    let idle = await run(0), calls = 1, busy = 0;
    while (true) {
      // A first try tells how many calls fill the time; only tries that do are repeated.
      busy = await run(calls) - idle;
      if (busy >= busy_ms / 2 || calls === most) {
        for (let i = 0; i < repetitions; i++) {
          idle = Math.min(idle, await run(0));
          busy = Math.min(busy, await run(calls) - idle);
        }
        if (busy >= busy_ms / 4 || calls === most) break;
      }
      calls = Math.min(most, Math.ceil(calls * Math.max(2, busy_ms / Math.max(busy, busy_ms / 16))));
    }
    return Math.max(busy, SHORTEST_MS) / calls / 1000;
  }

  /** The same for another recorder of the device. */
  on(recorder: Recorder): Stopwatch {
    return new Stopwatch(recorder, this.options);
  }

  /** Milliseconds from an empty submit to its readback, the middle of some. */
  async fence_ms(repetitions: number): Promise<number> {
    const all: number[] = [];
    for (let i = 0; i < repetitions; i++) all.push(await this.#run(() => {}, 0, 1));
    return median(all);
  }

  async #run(record: (i: number) => void, calls: number, dispatches: number): Promise<number> {
    const { flag, expectSound, now = () => performance.now() } = this.options, start = now();
    const submit_calls = Math.max(1, Math.floor(SUBMIT_DISPATCHES / dispatches));
    for (let i = 0; i < calls; i++) {
      if (i > 0 && i % submit_calls === 0) this.recorder.submit();
      record(i);
    }
    await this.recorder.submitAndRead([flag]);
    expectSound();
    return now() - start;
  }
}

/** The middle value; the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}
