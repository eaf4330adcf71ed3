/** The cost of an update, measured on the device before a run. */

import type { Clock } from "../../core/clock.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { Algorithm } from "./algorithm.ts";

/** The device, loaded as for the run, with the policy and the adapters of updates open. */
export interface Measurement {
  engine: EngineClient;
  algorithm: Algorithm;
  /** The number of token ids. */
  vocabulary: number;
  clock: Clock;
  signal: AbortSignal;
}

export interface MeasuredUpdate {
  seconds: number;
  /** The tokens for which these seconds stand. */
  tokens: number;
}

/** The time that work takes when its shaders are compiled: its second run. */
export async function warmTime(clock: Clock, work: () => Promise<unknown>): Promise<number> {
  await work();
  const started = clock.monotonic_ms();
  await work();
  return (clock.monotonic_ms() - started) / 1000;
}

/** Measures the first update of an algorithm that learns from rows, with a learning rate of 0. */
export async function measureRows({ algorithm, clock, signal }: Measurement): Promise<MeasuredUpdate> {
  let tokens = 0;
  const seconds = await warmTime(clock, async () => {
    const update = { update: 1, examples_seen: 0, learningRate: () => 0, signal };
    ({ tokens } = await algorithm.runUpdate(update));
  });
  return { seconds, tokens };
}
