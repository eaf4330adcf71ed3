/** The observe directory: a run's trajectories, for later inspection. */

import { join } from "node:path";
import { type Clock, timestamp } from "../../core/clock.ts";
import { doing, ServiceError, systemError } from "../../core/errors.ts";
import { makeFolder, writeFileAtomic } from "../../core/files.ts";
import { earnedReward, survivors } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";
import { capTexts, withoutTexts } from "./observe_texts.ts";

/** Version of both file formats. */
export const OBSERVE_FORMAT = 1;

/** The name of the index in an observe directory. */
export const OBSERVE_INDEX = "index.jsonl";

/** A line of the index, for one update. A later line of the same update replaces an earlier one. */
export interface ObservedUpdate {
  format: number;
  update: number;
  time: string;
  /** The name of its file in the directory. */
  file: string;
  groups: number;
  trajectories: number;
  /** Trajectories in a group's baseline; the others were lost. */
  kept: number;
  /** The smallest environment reward of all trajectories, counted as in `reward/mean`. */
  reward_min: number | null;
  reward_mean: number | null;
  reward_max: number | null;
  metrics: Record<string, number>;
  /** Whether the file has messages, calls, results and tokens. */
  texts_kept: boolean;
}

/** A line of an update's file. */
export interface ObservedGroup {
  group: Group;
  /** The text of every token id in the group; null without texts. */
  token_texts: Record<number, string> | null;
}

/** Texts are kept for the first of every `every` updates, and for the first and last of the run. */
export function keepsTexts(
  update: number,
  { every, updates }: { every: number; updates: number | null },
): boolean {
  return (update - 1) % every === 0 || update === updates;
}

export interface ObserveOptions {
  directory: string;
  /** `[observe] every`. */
  every: number;
  /** Updates of the run; null when unknown. */
  updates: number | null;
  /** 0: no limit. */
  max_text_chars: number;
  clock: Clock;
  /** The text of one token. */
  tokenText: (id: number) => string;
}

/**
 * Writes an update's file, then its line in the index. The newest update always has its texts, because it may turn out
 * to be the last. They are removed when the next update is written, unless the rule keeps them.
 */
export class ObserveWriter {
  #last: ObservedUpdate | null;

  private constructor(readonly options: ObserveOptions, last: ObservedUpdate | null) {
    this.#last = last;
  }

  /** Opens the directory and continues where an earlier process stopped. */
  static async open(options: ObserveOptions): Promise<ObserveWriter> {
    await makeFolder(options.directory);
    const { updates } = await readIndex(options.directory);
    return new ObserveWriter(options, updates.at(-1) ?? null);
  }

  /** @param groups Finished groups of one update, numbered from 1. Writing an update again replaces it. */
  async write(update: number, groups: readonly Group[], metrics: Record<string, number>): Promise<void> {
    const { max_text_chars, clock, tokenText } = this.options;
    const previous = this.#last;
    const lines = groups.map((group): ObservedGroup => ({
      group: capTexts(group, max_text_chars),
      token_texts: tokenTexts(group, tokenText),
    }));
    this.#last = { ...summarize(groups), update, metrics, time: timestamp(clock), texts_kept: true };
    await this.#store(this.#last, lines);
    if (
      previous && previous.update < update && previous.texts_kept &&
      !keepsTexts(previous.update, this.options)
    ) {
      const { groups: kept } = await readUpdate(this.options.directory, previous.update);
      const stripped = kept.map(({ group }) => ({ group: withoutTexts(group), token_texts: null }));
      await this.#store({ ...previous, texts_kept: false }, stripped);
    }
  }

  async #store(entry: ObservedUpdate, lines: ObservedGroup[]): Promise<void> {
    const { directory } = this.options;
    await writeFileAtomic(join(directory, updateFile(entry.update)), jsonLines(lines));
    const index = join(directory, OBSERVE_INDEX),
      line = JSON.stringify({ ...entry, file: updateFile(entry.update) });
    await doing(`write ${index}`, () => appendLine(index, line));
  }
}

/** Whether a name is that of an update's file. */
export function isUpdateFile(name: string): boolean {
  return /^update_\d{6,}\.jsonl$/.test(name);
}

const updateFile = (update: number) => `update_${String(update).padStart(6, "0")}.jsonl`;

function* jsonLines(values: Iterable<unknown>): Generator<Uint8Array> {
  const encoder = new TextEncoder();
  for (const value of values) yield encoder.encode(JSON.stringify(value) + "\n");
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
  const bytes = new TextEncoder().encode(`${end > 0 && last[0] !== 10 ? "\n" : ""}${line}\n`);
  for (let at = 0; at < bytes.length;) at += await file.write(bytes.subarray(at));
  await file.sync();
}

function tokenTexts(group: Group, tokenText: (id: number) => string): Record<number, string> {
  const texts: Record<number, string> = {};
  const lists = [
    group.prompt_tokens,
    ...group.members.flatMap(({ fragments }) => fragments.map(({ tokens }) => tokens)),
  ];
  for (const tokens of lists) for (const id of tokens) texts[id] ??= tokenText(id);
  return texts;
}

function summarize(
  groups: readonly Group[],
): Omit<ObservedUpdate, "update" | "metrics" | "time" | "texts_kept"> {
  const all = groups.flatMap(({ members }) => members);
  const rewards = all.map((member) => earnedReward(member) ?? 0);
  const some = rewards.length > 0;
  return {
    format: OBSERVE_FORMAT,
    file: "",
    groups: groups.length,
    trajectories: all.length,
    kept: groups.flatMap(survivors).length,
    reward_min: some ? Math.min(...rewards) : null,
    reward_mean: some ? rewards.reduce((sum, r) => sum + r, 0) / rewards.length : null,
    reward_max: some ? Math.max(...rewards) : null,
  };
}

/** The lines that could be read, and how many could not: a crash cuts off the last one. */
export interface ReadLines<T> {
  values: T[];
  skipped_lines: number;
}

async function readJsonLines<T>(path: string): Promise<ReadLines<T>> {
  const read: ReadLines<T> = { values: [], skipped_lines: 0 };
  for (const line of (await Deno.readTextFile(path)).split("\n")) {
    if (line === "") continue;
    try {
      read.values.push(JSON.parse(line));
    } catch {
      read.skipped_lines++;
    }
  }
  return read;
}

/** The updates of an observe directory, in order; empty without an index. */
export async function readIndex(
  directory: string,
): Promise<{ updates: ObservedUpdate[]; skipped_lines: number }> {
  let read: ReadLines<ObservedUpdate>;
  try {
    read = await readJsonLines(join(directory, OBSERVE_INDEX));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return { updates: [], skipped_lines: 0 };
    throw systemError(`read ${join(directory, OBSERVE_INDEX)}`, error);
  }
  const latest = new Map<number, ObservedUpdate>();
  for (const entry of read.values) {
    if (entry?.format === OBSERVE_FORMAT) latest.set(entry.update, entry);
    else read.skipped_lines++;
  }
  return {
    updates: [...latest.values()].sort((a, b) => a.update - b.update),
    skipped_lines: read.skipped_lines,
  };
}

/** The groups of one update. @throws {ServiceError} `path_not_found`. */
export async function readUpdate(
  directory: string,
  update: number,
): Promise<{ groups: ObservedGroup[]; skipped_lines: number }> {
  const path = join(directory, updateFile(update));
  try {
    const { values, skipped_lines } = await readJsonLines<ObservedGroup>(path);
    return { groups: values, skipped_lines };
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw systemError(`read ${path}`, error);
    throw new ServiceError("path_not_found", `Cannot read the trajectories of update ${update}: no ${path}`, {
      path,
    });
  }
}
