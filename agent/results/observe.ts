/** The observe directory: a run's trajectories, for later inspection. */

import { join } from "node:path";
import { type Clock, timestamp } from "../../core/clock.ts";
import { doing, systemError } from "../../core/errors.ts";
import { makeFolder, writeFileAtomic } from "../../core/files.ts";
import { earnedReward, survivors } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";
import { indexedGroup, type LineOptions, updateLines } from "./observe_lines.ts";
import { OBSERVE_FORMAT, OBSERVE_INDEX, type ObservedUpdate, updateFile } from "./observed.ts";
import { headOf, indexEntry, LF, readBytes, readLine, scanLines } from "./observed_file.ts";

/** Texts are kept for the first of every `every` updates, and for the first and last of the run. */
export function keepsTexts(
  update: number,
  { every, updates }: { every: number; updates: number | null },
): boolean {
  return (update - 1) % every === 0 || update === updates;
}

export interface ObserveOptions extends LineOptions {
  directory: string;
  /** `[run] name`. */
  run_name: string;
  /** `[run] algorithm`; absent: no run makes the conversations. */
  algorithm?: string;
  /** `[observe] every`. */
  every: number;
  /** Updates of the run; null when unknown. */
  updates: number | null;
  clock: Clock;
}

/** Values of an update besides its groups. */
export interface ObservedValues {
  metrics: Readonly<Record<string, number>>;
  /** Optimiser steps of the run after this update; absent: the update made none. */
  step?: number | undefined;
}

/**
 * Writes an update's file, then its line in the index. The newest update always has its texts, because it may turn out
 * to be the last. They are removed when the next update is written, unless the rule keeps them.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock as clock } from "../../core/clock.ts";
 * import { rewardedGroup } from "../rollout/group_testing.ts";
 *
 * const directory = await Deno.makeTempDir(), texts = { max_text_chars: 0, tokenText: (id: number) => `${id} ` };
 * const writer = await ObserveWriter.open({ directory, run_name: "run", every: 1, updates: 1, clock, ...texts });
 * await writer.write(1, [rewardedGroup([1, 0])], { metrics: {} });
 * const { updates: [first] } = await readIndex(directory);
 * assert.deepEqual([first!.trajectories, first!.reward_mean], [2, 0.5]);
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export class ObserveWriter {
  /** `step` of every update in the index. */
  readonly #steps: Map<number, number>;
  #last: ObservedUpdate | null;

  private constructor(readonly options: ObserveOptions, updates: readonly ObservedUpdate[]) {
    this.#steps = new Map(updates.map(({ update, step }) => [update, step]));
    this.#last = updates.at(-1) ?? null;
  }

  /** Opens the directory and continues where an earlier process stopped. */
  static async open(options: ObserveOptions): Promise<ObserveWriter> {
    await makeFolder(options.directory);
    const { updates } = await readIndex(options.directory);
    return new ObserveWriter(options, updates);
  }

  /** @param groups Finished groups of one update, numbered from 1. Writing an update again replaces it. */
  async write(update: number, groups: readonly Group[], values: ObservedValues): Promise<void> {
    const { clock, run_name, algorithm = null, updates } = this.options;
    const previous = this.#last;
    this.#last = {
      format: OBSERVE_FORMAT,
      update,
      time: timestamp(clock),
      file: updateFile(update),
      run_name,
      algorithm,
      updates,
      step: values.step ?? this.#stepsBefore(update),
      ...summarize(groups),
      metrics: { ...values.metrics },
      texts_kept: true,
    };
    this.#steps.set(update, this.#last.step);
    await this.#store(this.#last, encoded(updateLines(groups, this.options)));
    if (
      previous && previous.update < update && previous.texts_kept &&
      !keepsTexts(previous.update, this.options)
    ) {
      const path = join(this.options.directory, updateFile(previous.update));
      await this.#store({ ...previous, texts_kept: false }, factsOf(path));
    }
  }

  #stepsBefore(update: number): number {
    const earlier = [...this.#steps].filter(([of]) => of < update);
    return Math.max(0, ...earlier.map(([, step]) => step));
  }

  async #store(
    entry: ObservedUpdate,
    lines: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  ): Promise<void> {
    const { directory } = this.options;
    await writeFileAtomic(join(directory, entry.file), lines);
    const index = join(directory, OBSERVE_INDEX), line = JSON.stringify(entry);
    await doing(`write ${index}`, () => appendLine(index, line));
  }
}

/** Starts a new line after one that a crash cut off. */
async function appendLine(path: string, line: string): Promise<void> {
  using file = await Deno.open(path, { read: true, write: true, create: true });
  const end = await file.seek(0, Deno.SeekMode.End);
  const last = new Uint8Array(1);
  if (end > 0) {
    await file.seek(-1, Deno.SeekMode.End);
    await file.read(last);
  }
  const bytes = new TextEncoder().encode(`${end > 0 && last[0] !== LF ? "\n" : ""}${line}\n`);
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
  await file.sync();
}

function* encoded(lines: Iterable<string>): Generator<Uint8Array> {
  const encoder = new TextEncoder();
  for (const line of lines) yield encoder.encode(line);
}

/** The lines of facts of an update's file, which stand first. */
async function* factsOf(path: string): AsyncGenerator<Uint8Array> {
  using file = await Deno.open(path, { read: true });
  const end = new Uint8Array([LF]);
  for await (const lines of scanLines(file)) {
    for (const line of lines) {
      if (headOf(line.head)?.kind !== "facts") return;
      const bytes = await readBytes(file, line);
      if (!bytes) continue;
      yield bytes;
      yield end;
    }
  }
}

type Summary = Pick<
  ObservedUpdate,
  "groups" | "trajectories" | "kept" | "deterministic" | "reward_min" | "reward_mean" | "reward_max"
>;

function summarize(groups: readonly Group[]): Summary {
  const all = groups.flatMap(({ members }) => members);
  const rewards = all.map((member) => earnedReward(member) ?? 0);
  const some = rewards.length > 0;
  return {
    deterministic: all.every(({ deterministic }) => deterministic),
    groups: groups.map(indexedGroup),
    trajectories: all.length,
    kept: groups.flatMap(survivors).length,
    reward_min: some ? Math.min(...rewards) : null,
    reward_mean: some ? rewards.reduce((sum, r) => sum + r, 0) / rewards.length : null,
    reward_max: some ? Math.max(...rewards) : null,
  };
}

/** The updates of an observe directory, in order; empty without an index. */
export async function readIndex(
  directory: string,
): Promise<{ updates: ObservedUpdate[]; skipped_lines: number }> {
  const path = join(directory, OBSERVE_INDEX);
  const latest = new Map<number, ObservedUpdate>();
  let skipped_lines = 0;
  try {
    using file = await Deno.open(path, { read: true });
    for await (const lines of scanLines(file)) {
      for (const line of lines) {
        const entry = indexEntry(await readLine(file, line));
        if (entry) latest.set(entry.update, entry);
        else skipped_lines++;
      }
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw systemError(`read ${path}`, error);
  }
  return { updates: [...latest.values()].sort((a, b) => a.update - b.update), skipped_lines };
}
