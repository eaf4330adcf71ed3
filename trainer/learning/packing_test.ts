import { deepEqual, equal, throws } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { TrainingSample } from "../protocol/protocol.ts";
import { ROW_ALIGNMENTS } from "../../kernels/attention/attention_plan.ts";
import { Rng, rngKey } from "../../core/random.ts";
import {
  type MicroBatch,
  microBatchRows,
  type PackingOptions,
  packSamples,
  trajectoryTokens,
} from "./packing.ts";

const OPTIONS: PackingOptions = { capacity: 64, alignment: 1, joins_fragments: true };

interface Given {
  tokens: number[];
  /** Positions that are trained. */
  trained: number[];
  trajectory: number;
  group?: number;
  prefix?: number;
}

const sample = ({ tokens, trained, trajectory, group = 0, prefix = 0 }: Given): TrainingSample => ({
  tokens: Uint32Array.from(tokens),
  prefix_group: group,
  prefix_length: prefix,
  loss_mask: Uint8Array.from(tokens, (_, t) => trained.includes(t) ? 1 : 0),
  trajectory,
  advantages: null,
  old_logprobs: null,
  reference_logprobs: null,
  weights: null,
});

const pack = (given: Given[], options: Partial<PackingOptions> = {}): MicroBatch[] =>
  packSamples(given.map(sample), { ...OPTIONS, ...options });

/** A batch's targets as `[row, sample, position]`. */
const targets = (batch: MicroBatch) =>
  batch.targets.map(({ row, sample, position }) => [row, sample, position]);

/** What each row may attend to: its prompt's rows and its own segment's first. */
const segments = (batch: MicroBatch) =>
  Array.from({ length: batch.ids.length }, (_, row) => [...batch.rows.subarray(4 * row, 4 * row + 3)]);

Deno.test("a sample's last token has no row, and a target lies in the row before its token", () => {
  const [batch, ...others] = pack([{ tokens: [10, 11, 12, 13], trained: [1, 3], trajectory: 5 }]);
  equal(others.length, 0);
  deepEqual([...batch!.ids], [10, 11, 12]);
  deepEqual([...batch!.positions], [0, 1, 2]);
  deepEqual(targets(batch!), [[0, 0, 1], [2, 0, 3]]);
  deepEqual(batch!.trajectories, [[0, 2]]);
  equal(batch!.computed, 3);
});

Deno.test("segments start at the alignment, and padding is not computed", () => {
  const given = [
    { tokens: [1, 2, 3, 4, 5, 6], trained: [5], trajectory: 0 },
    { tokens: [7, 8, 9], trained: [1, 2], trajectory: 1 },
  ];
  const [batch] = pack(given, { alignment: 4 });
  deepEqual([...batch!.ids], [1, 2, 3, 4, 5, 0, 0, 0, 7, 8, 0, 0]);
  deepEqual([...batch!.positions], [0, 1, 2, 3, 4, 0, 0, 0, 0, 1, 0, 0]);
  equal(batch!.computed, 7);
  deepEqual(targets(batch!), [[4, 0, 5], [8, 1, 1], [9, 1, 2]]);
  deepEqual(batch!.trajectories, [[0, 1], [1, 3]]);
  const own = segments(batch!);
  deepEqual(own[4], [0, 0, 0]);
  deepEqual(own[5], [0, 0, 5], "padding attends to itself");
  deepEqual(own[9]!.slice(1), [0, 8]);
});

Deno.test("a sample without a shared prompt stands alone, whatever its group's number", () => {
  const [batch] = pack([
    { tokens: [1, 2, 3, 4], trained: [3], trajectory: 0, group: 9, prefix: 2 },
    { tokens: [5, 6, 7], trained: [2], trajectory: 1, group: 9 },
    { tokens: [1, 2, 8, 9], trained: [3], trajectory: 2, group: 9, prefix: 2 },
  ]);
  deepEqual([...batch!.ids], [1, 2, 3, 8, 5, 6]);
  deepEqual([...batch!.positions], [0, 1, 2, 2, 0, 1]);
});

Deno.test("a shared prompt runs once, but its last token for each member if one of them trains the token after it", () => {
  const prompt = [1, 2, 3];
  const [batch] = pack([
    { tokens: [...prompt, 20, 21], trained: [3, 4], trajectory: 0, group: 9, prefix: 3 },
    { tokens: [...prompt, 30, 31, 32], trained: [4], trajectory: 1, group: 9, prefix: 3 },
  ]);
  // One member trains position 3, so the prompt's row 2 is every member's own.
  deepEqual([...batch!.ids], [1, 2, 3, 20, 3, 30, 31]);
  deepEqual([...batch!.positions], [0, 1, 2, 3, 2, 3, 4]);
  deepEqual(targets(batch!), [[2, 0, 3], [3, 0, 4], [5, 1, 4]]);
  deepEqual(segments(batch!)[6], [0, 2, 4], "a member attends to the prompt and to itself");
  equal(batch!.computed, 7);

  const [whole] = pack([
    { tokens: [...prompt, 20, 21], trained: [4], trajectory: 0, group: 9, prefix: 3 },
    { tokens: [...prompt, 30, 31, 32], trained: [5], trajectory: 1, group: 9, prefix: 3 },
  ]);
  deepEqual([...whole!.ids], [1, 2, 3, 20, 30, 31], "else the whole prompt is shared");
  deepEqual(targets(whole!), [[3, 0, 4], [5, 1, 5]]);
});

Deno.test("every member keeps a row of its own, however short it is", () => {
  const [batch] = pack([
    { tokens: [1, 2, 3, 4], trained: [], trajectory: 0, group: 1, prefix: 4 },
    { tokens: [1, 2, 3, 4, 5], trained: [4], trajectory: 1, group: 1, prefix: 4 },
  ]);
  deepEqual([...batch!.ids], [1, 2, 3, 3, 4], "positions 0 and 1 are shared");
  deepEqual([...batch!.positions], [0, 1, 2, 2, 3]);
  deepEqual(targets(batch!), [[4, 1, 4]]);
});

Deno.test("samples without a prefix do not share, whatever their group", () => {
  const [batch] = pack([
    { tokens: [1, 2, 3], trained: [2], trajectory: 0 },
    { tokens: [1, 2, 3], trained: [2], trajectory: 1 },
  ]);
  deepEqual([...batch!.ids], [1, 2, 1, 2]);
});

Deno.test("targets stand by trajectory, sample and position, and a trajectory's are one range", () => {
  const [batch] = pack([
    { tokens: [1, 2, 3], trained: [2], trajectory: 7 },
    { tokens: [4, 5, 6], trained: [1], trajectory: 3 },
    { tokens: [7, 8, 9], trained: [1, 2], trajectory: 7 },
  ]);
  deepEqual(targets(batch!).map(([, ...rest]) => rest), [[0, 2], [2, 1], [2, 2], [1, 1]]);
  deepEqual(batch!.trajectories, [[0, 3], [3, 4]]);
});

Deno.test("fragments of one trajectory come into one micro-batch, in the order given", () => {
  const three = (first: number) => [first, first + 1, first + 2, first + 3];
  const given = [
    { tokens: three(10), trained: [3], trajectory: 0 },
    { tokens: three(20), trained: [3], trajectory: 1 },
    { tokens: three(30), trained: [3], trajectory: 0 },
  ];
  const batches = pack(given, { capacity: 6 });
  deepEqual(batches.map(({ ids }) => [...ids]), [[10, 11, 12, 30, 31, 32], [20, 21, 22]]);
  deepEqual(batches.map(targets), [[[2, 0, 3], [5, 2, 3]], [[2, 1, 3]]]);
});

Deno.test("a group joins the fragments of all its members", () => {
  const prompt = [1, 2, 3];
  const given = [
    { tokens: [40, 41, 42], trained: [2], trajectory: 0 },
    { tokens: [50, 51, 52], trained: [2], trajectory: 1 },
    { tokens: [...prompt, 60], trained: [3], trajectory: 0, group: 1, prefix: 3 },
    { tokens: [...prompt, 70], trained: [3], trajectory: 1, group: 1, prefix: 3 },
  ];
  // Two rows of fragments, two of the prompt, one of the member: neither trajectory is divided.
  const batches = pack(given, { capacity: 5 });
  deepEqual(batches.map(({ ids }) => [...ids]), [[40, 41, 1, 2, 3], [50, 51, 1, 2, 3]]);
  deepEqual(batches.map(({ trajectories }) => trajectories), [[[0, 2]], [[0, 2]]]);
});

Deno.test("a group that is too large for a micro-batch is cut between trajectories, each part with its prompt", () => {
  const prompt = [1, 2, 3, 4];
  const given = [0, 1, 2].map((i) => ({
    ...{ tokens: [...prompt, 10 * i + 10, 10 * i + 11], trained: [5], trajectory: i },
    ...{ group: 2, prefix: 4 },
  }));
  // A part has 4 rows of the prompt and one for each member.
  deepEqual(pack(given, { capacity: 7 }).map(({ ids }) => [...ids]), [[1, 2, 3, 4, 10, 20, 30]]);
  const cut = pack(given, { capacity: 6 });
  deepEqual(cut.map(({ ids }) => [...ids]), [[1, 2, 3, 4, 10, 20], [1, 2, 3, 4, 30]]);
  deepEqual(cut.map(targets), [[[4, 0, 5], [5, 1, 5]], [[4, 2, 5]]]);
  equal(pack(given, { capacity: 5 }).length, 3);
});

Deno.test("micro-batches are filled in order, up to their capacity and no further", () => {
  const given = [4, 3, 5, 2, 2].map((length, i) => ({
    ...{ tokens: Array.from({ length: length + 1 }, (_, t) => 10 * i + t), trained: [1], trajectory: i },
  }));
  const batches = pack(given, { capacity: 7 });
  deepEqual(batches.map(({ targets }) => targets.map(({ sample }) => sample)), [[0, 1], [2, 3], [4]]);
  deepEqual(batches.map(({ ids }) => ids.length), [7, 7, 2]);
  deepEqual(pack([]), []);
});

Deno.test("a trajectory that fits no micro-batch is refused with what to change", () => {
  const tokens = Array.from({ length: 34 }, (_, t) => t);
  equal(pack([{ tokens, trained: [33], trajectory: 0 }], { capacity: 33 }).length, 1);
  throws(
    () => pack([{ tokens, trained: [33], trajectory: 0 }], { capacity: 32, alignment: 4 }),
    new ServiceError(
      "config_invalid",
      "Cannot pack a sample of 36 rows: a micro-batch holds 32. Raise training.micro_batch_tokens, or lower " +
        "training.ctx",
      { capacity: 32 },
    ),
  );
  const fragments = [0, 1].map((i) => ({ tokens: tokens.slice(0, 20 + i), trained: [19], trajectory: 4 }));
  throws(
    () => pack(fragments, { capacity: 32 }),
    /Cannot pack a trajectory or pair of 2 samples in 39 rows/,
  );
  equal(pack(fragments, { capacity: 32, joins_fragments: false }).length, 2, "apart they fit");
});

/** Whether a trajectory of a step comes into micro-batches of so many tokens, on every device. */
function fits(samples: readonly TrainingSample[], tokens: number): boolean {
  try {
    for (const alignment of ROW_ALIGNMENTS) {
      const capacity = microBatchRows(tokens, alignment);
      packSamples(samples, { capacity, alignment, joins_fragments: true });
    }
    return true;
  } catch (error) {
    if (error instanceof ServiceError) return false;
    throw error;
  }
}

Deno.test("the fewest tokens of a trajectory are those with which a micro-batch holds it on every device", () => {
  const rng = new Rng(rngKey(5, "fragments"));
  const length = (most: number) => 2 + rng.below(most);
  for (let round = 0; round < 40; round++) {
    const prompt = Array.from({ length: length(60) }, (_, t) => t), given: Given[] = [];
    for (let trajectory = 0; trajectory < 3; trajectory++) {
      for (let fragment = 0; fragment <= rng.below(4); fragment++) {
        const shares = rng.below(3) > 0;
        const start = shares ? prompt : [90 + fragment];
        const tokens = [...start, ...Array.from({ length: length(70) }, (_, t) => 100 + t)];
        const from = start.length + rng.below(2);
        given.push({
          tokens,
          trained: [from],
          trajectory,
          ...(shares && { group: 1, prefix: prompt.length }),
        });
      }
    }
    const samples = given.map(sample), needed = trajectoryTokens(samples);
    deepEqual([...needed.keys()].toSorted(), [0, 1, 2]);
    const most = Math.max(...needed.values());
    equal(fits(samples, most), true);
    equal(fits(samples, most - 1), false);
  }
});

Deno.test("a prefix that is trained, or that differs, is a programmer's mistake", () => {
  const one = { tokens: [1, 2, 3, 4], trained: [3], trajectory: 0, group: 1, prefix: 3 };
  throws(
    () => pack([one, { ...one, tokens: [1, 9, 3, 4], trajectory: 1 }]),
    /Assertion failed: a shared prefix/,
  );
  throws(() => pack([{ ...one, trained: [2] }]), /Assertion failed: a shared prefix/);
  throws(
    () => pack([one, { ...one, prefix: 2, trajectory: 1 }]),
    /Assertion failed: samples of a prefix group/,
  );
});
