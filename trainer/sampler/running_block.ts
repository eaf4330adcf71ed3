/** Which blocks of steps follow each other on the device without the host. */

import type { DecodeBlock } from "./sampler.ts";
import { type Generation, isFree, type Sequence } from "./sequence.ts";

/** What a row of a block samples for. */
export interface BlockRow {
  readonly sequence: Sequence;
  /** If the sequence has another one by now, or none, this one has ended. */
  readonly generation: Generation;
}

/** A block that has not been read. */
export interface RunningBlock {
  /** Null: the row samples nothing. */
  readonly rows: readonly (BlockRow | null)[];
  readonly steps: number;
  readonly block: DecodeBlock;
}

/** Whether the generation of a row has not ended, as far as the host knows. */
export function isLive(row: BlockRow | null): row is BlockRow {
  return row !== null && row.sequence.generation === row.generation;
}

/**
 * The steps of a block: as many as all of its generations want, and none more than the longest of them needs.
 *
 * @param options.before Steps of a block before it that has not been read.
 */
export function blockSteps(
  generations: readonly Pick<Generation, "remaining" | "block_tokens">[],
  { block_steps, before = 0 }: { block_steps: number; before?: number },
): number {
  const longest = Math.max(...generations.map(({ remaining }) => remaining)) - before;
  return Math.min(block_steps, longest, ...generations.map(({ block_tokens }) => block_tokens));
}

/**
 * The rows of the block after a running one, which may be started before the running one is read; null where it may not.
 * A row that ends in the running block stays in the next one and samples nothing there.
 */
export function nextRows({ rows, steps }: Pick<RunningBlock, "rows" | "steps">): (BlockRow | null)[] | null {
  const next = rows.map((row) => isLive(row) && !row.generation.is_cancelled ? row : null);
  const generations = next.flatMap((row) => row ? [row.generation] : []);
  const goes_on = generations.some(({ remaining }) => remaining > steps);
  return goes_on && generations.every(isFree) ? next : null;
}

/**
 * Orders sequences by their first differing page; where one has no more pages, it comes first. So rows that share pages
 * are adjacent, and attention reads a shared page once.
 */
export function byPages(a: Pick<Sequence, "pages">, b: Pick<Sequence, "pages">): number {
  let i = 0;
  while (i < a.pages.length && a.pages[i] === b.pages[i]) i++;
  return (a.pages[i] ?? -1) - (b.pages[i] ?? -1);
}
