/** Packs samples into micro-batches. A prompt that several samples share is computed once. */

import { assert, ServiceError } from "../../core/errors.ts";
import { ROW_ALIGNMENTS } from "../../kernels/attention/attention_plan.ts";
import { type PackedGroup, packRows } from "../../kernels/attention/packed_rows.ts";
import { roundUp } from "../../kernels/shape.ts";
import type { TrainingSample } from "../protocol/protocol.ts";

/** A trained token: the row that predicts it, the index of its sample, and its position in the sample. */
export interface Target {
  row: number;
  sample: number;
  position: number;
}

/** The input of one forward and backward pass. Arrays have an entry for each row, including padding. */
export interface MicroBatch {
  ids: Uint32Array;
  positions: Uint32Array;
  /** `[rows, 4]`, see packRows. */
  rows: Uint32Array;
  /** The number of rows that are not padding. */
  computed: number;
  /** Ordered by trajectory, then by sample, then by position. */
  targets: Target[];
  /** For each trajectory the index of its first target, and the index after its last. */
  trajectories: [number, number][];
}

export interface PackingOptions {
  /** The most rows of a micro-batch. */
  capacity: number;
  /** Segments start at multiples of this many rows. */
  alignment: number;
  /** All samples of a trajectory go into one micro-batch, because their loss needs all of them at once. */
  joins_fragments: boolean;
}

/** Samples that share a prompt, and the number of tokens that they share. */
interface Tree {
  samples: number[];
  prefix: number;
}

/**
 * Packs samples in their order. Samples of one prefix group share the rows of their prompt. If the prompt's last token
 * predicts a trained token, each sample computes that row itself. The last token of a sample has no row.
 *
 * @throws {ServiceError} `config_invalid` when samples that must stay together have more rows than the capacity.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const absent = { advantages: null, old_logprobs: null, reference_logprobs: null, weights: null };
 * const completion = (tokens, trajectory) => ({
 *   ...absent,
 *   tokens: Uint32Array.of(1, 2, 3, ...tokens),
 *   loss_mask: Uint8Array.of(0, 0, 0, ...tokens.map(() => 1)),
 *   ...{ prefix_group: 0, prefix_length: 3, trajectory },
 * });
 * const samples = [completion([4, 5], 0), completion([6, 7], 1)];
 * const options = { capacity: 64, alignment: 4, joins_fragments: false };
 * const [batch] = packSamples(samples, options);
 * // Tokens 1 and 2 are computed once, 3 and the first token of a completion once for each.
 * assert.equal(batch.computed, 2 + 2 * 2);
 * assert.deepEqual(batch.targets.map(({ sample, position }) => [sample, position]), [[0, 3], [0, 4], [1, 3], [1, 4]]);
 * ```
 */
export function packSamples(samples: readonly TrainingSample[], options: PackingOptions): MicroBatch[] {
  const batches: MicroBatch[] = [];
  let open: Tree[] = [];
  const rows = (trees: readonly Tree[]) => rowsOf(samples, trees, options);
  const flush = () => {
    if (open.length > 0) batches.push(packTrees(samples, open, options));
    open = [];
  };
  for (const unit of units(samples, options)) {
    for (const part of splitUnit(samples, unit, options)) {
      if (rows(open) + rows(part) > options.capacity) flush();
      open.push(...part);
    }
  }
  flush();
  return batches;
}

/** Samples with the same owner stay in one micro-batch: the owner is the trajectory, or the sample itself. */
function ownerOf(samples: readonly TrainingSample[], i: number, { joins_fragments }: PackingOptions): number {
  return joins_fragments ? samples[i]!.trajectory : i;
}

/** Groups samples by prompt into trees, and trees that hold samples of one owner into units. */
function units(samples: readonly TrainingSample[], options: PackingOptions): Tree[][] {
  const by_group = new Map<number, number[]>();
  const units: { trees: Tree[]; owners: Set<number> }[] = [];
  const lists: number[][] = [];
  samples.forEach((sample, i) => {
    const list = sample.prefix_length > 0 ? by_group.get(sample.prefix_group) : undefined;
    if (list) return list.push(i);
    const fresh = [i];
    lists.push(fresh);
    if (sample.prefix_length > 0) by_group.set(sample.prefix_group, fresh);
  });
  for (const list of lists) {
    const tree = { samples: list, prefix: sharedPrefix(samples, list) };
    const owners = new Set(list.map((i) => ownerOf(samples, i, options)));
    const joined = units.filter((unit) => [...owners].some((owner) => unit.owners.has(owner)));
    const unit = joined[0] ?? { trees: [], owners: new Set() };
    if (joined.length === 0) units.push(unit);
    for (const other of joined.slice(1)) {
      units.splice(units.indexOf(other), 1);
      unit.trees.push(...other.trees);
      for (const owner of other.owners) unit.owners.add(owner);
    }
    unit.trees.push(tree);
    for (const owner of owners) unit.owners.add(owner);
  }
  return units.map((unit) => unit.trees);
}

/** The number of tokens that all samples share. Each sample keeps a row of its own, and the rows of its targets. */
function sharedPrefix(samples: readonly TrainingSample[], list: readonly number[]): number {
  let prefix = samples[list[0]!]!.prefix_length;
  const first = samples[list[0]!]!;
  for (const i of list) {
    const { tokens, loss_mask, prefix_length } = samples[i]!;
    assert(prefix_length === first.prefix_length, "samples of a prefix group share one prefix");
    for (let t = 0; t < prefix_length; t++) {
      assert(
        tokens[t] === first.tokens[t] && loss_mask[t] === 0,
        "a shared prefix is the same and not trained",
      );
    }
    prefix = Math.min(
      prefix,
      loss_mask[prefix_length] === 1 ? prefix_length - 1 : prefix_length,
      tokens.length - 2,
    );
  }
  return Math.max(0, prefix);
}

function treeRows(samples: readonly TrainingSample[], tree: Tree, { alignment }: PackingOptions): number {
  const members = tree.samples.map((i) => roundUp(ownRows(samples[i]!, tree.prefix), alignment));
  return members.reduce((sum, rows) => sum + rows, roundUp(tree.prefix, alignment));
}

const ownRows = (sample: TrainingSample, prefix: number) => Math.max(1, sample.tokens.length - 1 - prefix);

const rowsOf = (samples: readonly TrainingSample[], trees: readonly Tree[], options: PackingOptions) =>
  trees.reduce((sum, tree) => sum + treeRows(samples, tree, options), 0);

/** The owners of a unit, in the order of their samples. */
function ownersOf(samples: readonly TrainingSample[], unit: readonly Tree[], options: PackingOptions) {
  return new Set(unit.flatMap((tree) => tree.samples.map((i) => ownerOf(samples, i, options))));
}

/** The samples of some owners of a unit, with their prompts. */
function partOf(
  samples: readonly TrainingSample[],
  { unit, owners }: { unit: readonly Tree[]; owners: readonly number[] },
  options: PackingOptions,
): Tree[] {
  return unit.map((tree) => ({
    ...tree,
    samples: tree.samples.filter((i) => owners.includes(ownerOf(samples, i, options))),
  })).filter((tree) => tree.samples.length > 0);
}

/** The capacity in rows for a number of tokens. It leaves room for padding after a prompt and after a sample. */
export function microBatchRows(tokens: number, alignment: number): number {
  return roundUp(tokens, alignment) + 2 * alignment;
}

/** For each trajectory the least `micro_batch_tokens` with which one micro-batch holds all of it on any device. */
export function trajectoryTokens(samples: readonly TrainingSample[]): Map<number, number> {
  const tokens = new Map<number, number>();
  for (const alignment of ROW_ALIGNMENTS) {
    const options = { capacity: Infinity, alignment, joins_fragments: true };
    for (const unit of units(samples, options)) {
      for (const owner of ownersOf(samples, unit, options)) {
        const rows = rowsOf(samples, partOf(samples, { unit, owners: [owner] }, options), options);
        // Rows are a multiple of the alignment, so this is the least t with microBatchRows(t) ≥ rows.
        tokens.set(owner, Math.max(tokens.get(owner) ?? 0, rows - 3 * alignment + 1));
      }
    }
  }
  return tokens;
}

/** Splits a unit into parts within the capacity. An owner stays in one part; each part has the prompts that it needs. */
function splitUnit(samples: readonly TrainingSample[], unit: Tree[], options: PackingOptions): Tree[][] {
  const { capacity } = options;
  const rows = (trees: Tree[]) => rowsOf(samples, trees, options);
  if (rows(unit) <= capacity) return [unit];
  const part = (owners: readonly number[]) => partOf(samples, { unit, owners }, options);
  const parts: Tree[][] = [];
  let taken: number[] = [];
  for (const next of ownersOf(samples, unit, options)) {
    const alone = part([next]), needed = rows(alone);
    if (needed > capacity) {
      const fragments = alone.reduce((sum, tree) => sum + tree.samples.length, 0);
      const what = fragments > 1 ? `trajectory or pair of ${fragments} samples in` : "sample of";
      throw new ServiceError(
        "config_invalid",
        `Cannot pack a ${what} ${needed} rows: a micro-batch holds ${capacity}. ` +
          `Raise training.micro_batch_tokens, or lower training.ctx`,
        { capacity },
      );
    }
    if (taken.length > 0 && rows(part([...taken, next])) > capacity) {
      parts.push(part(taken));
      taken = [];
    }
    taken.push(next);
  }
  parts.push(part(taken));
  return parts;
}

function packTrees(
  samples: readonly TrainingSample[],
  trees: readonly Tree[],
  { alignment }: PackingOptions,
): MicroBatch {
  const groups: PackedGroup[] = trees.map(({ prefix, samples: list }) => ({
    prompt: prefix,
    members: list.map((i) => ownRows(samples[i]!, prefix)),
  }));
  const packed = packRows(groups, alignment);
  const ids = new Uint32Array(packed.count), positions = new Uint32Array(packed.count);
  const found: Target[] = [];
  let computed = 0;
  const place = (start: number, from: number, tokens: Uint32Array) => {
    ids.set(tokens, start);
    for (let i = 0; i < tokens.length; i++) positions[start + i] = from + i;
    computed += tokens.length;
  };
  trees.forEach(({ prefix, samples: list }, t) => {
    const { prompt, members } = packed.groups[t]!;
    place(prompt.start, 0, samples[list[0]!]!.tokens.subarray(0, prefix));
    list.forEach((sample, m) => {
      const { tokens, loss_mask } = samples[sample]!, { start, length } = members[m]!;
      place(start, prefix, tokens.subarray(prefix, prefix + length));
      for (let position = 1; position < tokens.length; position++) {
        if (loss_mask[position] === 1) found.push({ row: start + position - 1 - prefix, sample, position });
      }
    });
  });
  const order = new Map([...new Set(found.map((f) => samples[f.sample]!.trajectory))].map((t, i) => [t, i]));
  const rank = (target: Target) => order.get(samples[target.sample]!.trajectory)!;
  const targets = found.sort((a, b) => rank(a) - rank(b) || a.sample - b.sample || a.position - b.position);
  const trajectories: [number, number][] = [];
  targets.forEach((target, i) => {
    const last = trajectories.at(-1);
    if (last && rank(targets[i - 1]!) === rank(target)) last[1] = i + 1;
    else trajectories.push([i, i + 1]);
  });
  return { ids, positions, rows: packed.rows, computed, targets, trajectories };
}
