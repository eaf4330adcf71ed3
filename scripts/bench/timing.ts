/** Measures seconds of device work without the wait of a readback. */

import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";

/** The length and the number of measurements. */
export interface Effort {
  /** The target time of one submit. */
  busy_ms: number;
  repetitions: number;
}

/** The approximate number of dispatches in a submit: the device works on one while the next is recorded. */
const SUBMIT_DISPATCHES = 256;
/** The most dispatches of a measurement. */
const MAX_DISPATCHES = 16_384;

/** Shorter work cannot be distinguished from a wait. */
const SHORTEST_MS = 0.05;

/** Times the recorded work of one device. */
export class Stopwatch {
  /**
   * @param options flag: any small tensor; reading it waits for all submitted work. expectSound: throws when the device
   * has failed, because a time would then mean nothing. now: a clock in milliseconds.
   */
  constructor(
    readonly recorder: Recorder,
    readonly options: { flag: Tensor; effort: Effort; expectSound: () => void; now?: () => number },
  ) {}

  /**
   * Seconds for one call of `record`: the fastest of several runs of many calls, minus the fastest empty submit. For a
   * kernel that is faster than its recording this is the host's time.
   *
   * @param record Records the i-th call.
   * @param dispatches The number of dispatches in a call.
   */
  async seconds(record: (i: number) => void, dispatches = 1): Promise<number> {
    const { busy_ms, repetitions } = this.options.effort;
    const most = Math.max(1, Math.floor(MAX_DISPATCHES / dispatches));
    const run = (calls: number) => this.#run(record, calls, dispatches);
    await run(1);
    let idle = await run(0), calls = 1, busy = 0;
    while (true) {
      // A first try finds how many calls fill the time; only such runs are repeated.
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

  /** Milliseconds from an empty submit to its readback, the median of several. */
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

/** The median; the mean of the middle two for an even count. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b), half = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[half]! : (sorted[half - 1]! + sorted[half]!) / 2;
}
