import { deepEqual, equal, notDeepEqual, ok, rejects } from "node:assert/strict";
import { systemClock } from "../../core/clock.ts";
import type { Gpu } from "../../kernels/device.ts";
import { adamwReference, type AdamwState } from "../../kernels/adamw/adamw_reference.ts";
import { expectClose, gpuTest } from "../../kernels/gpu_testing.ts";
import { loadParts, readGolden, sample } from "../../tests/golden/golden.ts";
import type { LoraShape, TrainingSample } from "../protocol/protocol.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../model/device_adapter.ts";
import type { FlatArray } from "../model/flat_array.ts";
import { Trainer } from "./trainer.ts";

const OPTIMIZER = {
  learning_rate: 0,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 0,
};
const LORA: LoraShape = { rank: 4, alpha: 8, targets: ["q_proj", "down_proj"] };

const ids = (await readGolden()).prompts[7]!.ids;

interface Bench {
  trainer: Trainer;
  /** Parameters and moments of an adapter that has been trained. */
  read: (adapter: DeviceAdapter) => Promise<AdamwState>;
  adapter: (lora?: LoraShape) => DeviceAdapter;
}

/** Runs `use` on the tiny model with vocabulary chunks of 64 rows. */
async function withTrainer(
  gpu: Gpu,
  use: (bench: Bench) => Promise<void>,
  micro_batch_tokens = 512,
): Promise<void> {
  const parts = await loadParts(gpu, "f16"), { allocator, model } = parts;
  const trainer = new Trainer(allocator, model, { micro_batch_tokens, loss_chunk_rows: 64 });
  try {
    await use({
      trainer,
      async read({ params, training: { m, v } }) {
        const values = async (array: FlatArray) => Float64Array.from(await array.read(model.recorder));
        return { p: await values(params), m: await values(m), v: await values(v) };
      },
      adapter(lora = LORA) {
        const made = new DeviceAdapter(allocator, adapterLayout(model.shape, lora));
        made.write(initialParameters(made.layout, 3));
        return made;
      },
    });
  } finally {
    parts.close();
  }
}

/** A sample of `ids` from `first` on, of which all from `trained` on are trained, with arrays by position. */
function policySample(
  { first, length, trained, trajectory }: {
    first: number;
    length: number;
    trained: number;
    trajectory: number;
  },
  arrays: (t: number) => { advantage: number; old: number; reference: number; weight: number },
): TrainingSample {
  const tokens = ids.slice(first, first + length);
  const column = (name: "advantage" | "old" | "reference" | "weight") =>
    Float32Array.from(tokens, (_, t) => arrays(t)[name]);
  return sample(tokens, trajectory, {
    loss_mask: tokens.map((_, t) => t >= trained ? 1 : 0),
    advantages: column("advantage"),
    old_logprobs: column("old"),
    reference_logprobs: column("reference"),
    weights: column("weight"),
  });
}

gpuTest("a trajectory's fragments share one ratio over all chunks of the vocabulary pass", async (gpu) => {
  await withTrainer(gpu, async ({ trainer, adapter }) => {
    const policy = adapter();
    // Trajectory 0 has 50 + 60 trained tokens in two fragments around trajectory 1's 30: three chunks of 64 rows.
    const pieces = [
      { first: 0, length: 60, trained: 10, trajectory: 0 },
      { first: 100, length: 40, trained: 10, trajectory: 1 },
      { first: 200, length: 70, trained: 10, trajectory: 0 },
    ];
    const none = () => ({ advantage: 0, old: 0, reference: 0, weight: 1 });
    const logprobs = await trainer.score(policy, pieces.map((piece) => policySample(piece, none)));
    // How far the sampler's policy and the reference are from this one, by sample and token.
    const drift = (s: number, t: number) => 0.3 * Math.sin(3 * s + t) + [0.02, 0.4, 0.05][s]!;
    const samples = pieces.map((piece, s) =>
      policySample(piece, (t) => {
        const lp = logprobs[s]![t - piece.trained] ?? 0;
        return {
          advantage: s === 1 ? 1 : -0.5,
          old: lp - drift(s, t),
          reference: lp + 0.1 * s,
          weight: 0.5 + 0.25 * s,
        };
      })
    );
    const { loss, samples: measures } = await trainer.step(policy, samples, {
      loss: {
        ...{ type: "policy", importance_sampling_level: "sequence", clip_low: 0.2, clip_high: 0.28 },
        ...{ kl_coefficient: 0.1, normalizer: 300 },
      },
      optimizer: OPTIMIZER,
    });
    const drifts = pieces.map((piece, s) =>
      Array.from({ length: piece.length - piece.trained }, (_, i) => drift(s, piece.trained + i))
    );
    const mean = (list: number[]) => list.reduce((a, b) => a + b) / list.length;
    const ratios = [[...drifts[0]!, ...drifts[2]!], drifts[1]!].map((list) => Math.exp(mean(list)));
    ok(ratios[1]! > 1.28, "trajectory 1 is clipped");
    let expected = 0;
    pieces.forEach((piece, s) => {
      const w = ratios[piece.trajectory]!, a = s === 1 ? 1 : -0.5, d = 0.1 * s;
      const clipped = Math.min(w * a, Math.min(Math.max(w, 0.8), 1.28) * a);
      const token = -(0.5 + 0.25 * s) * clipped + 0.1 * w * (Math.exp(d) - d - 1);
      expected += (piece.length - piece.trained) * token / 300;
      ok(
        measures[s]!.ratios.every((ratio) => Math.abs(ratio - w) < 1e-4),
        `${[...measures[s]!.ratios]} are ${w}`,
      );
      ok(measures[s]!.clipped.every((side) => side === (s === 1 ? 1 : 0)));
      deepEqual(measures[s]!.logprobs, logprobs[s]);
    });
    ok(Math.abs(loss - expected) < 1e-5, `the loss is ${loss}, expected ${expected}`);
  });
});

gpuTest("an adapter of larger rank follows a smaller one, and results stay", async (gpu) => {
  await withTrainer(gpu, async ({ trainer, adapter }) => {
    const small = adapter(),
      large = adapter({ rank: 40, alpha: 80, targets: ["q_proj", "k_proj", "v_proj", "gate_proj"] });
    // So many rows that what was made for the smaller rank has no room for them.
    const samples = [sample(ids.slice(0, 200), 0)];
    const request = { loss: { type: "sft", normalizer: 199 } as const, optimizer: OPTIMIZER };
    const first = await trainer.step(small, samples, request);
    const other = await trainer.step(large, samples, request);
    deepEqual(other.samples, first.samples, "B is zero in both");
    notDeepEqual(other.grad_norm, first.grad_norm);
    const again = await trainer.step(small, samples, request);
    deepEqual({ ...again, step: 0, version: 0 }, { ...first, step: 0, version: 0 });
    deepEqual(await trainer.score(null, samples), await trainer.score(small, samples));
  });
});

gpuTest("a step that is not finite changes nothing and says so", async (gpu) => {
  await withTrainer(gpu, async ({ trainer, adapter }) => {
    const policy = adapter(), good = sample(ids.slice(0, 40), 0);
    const request = {
      loss: { type: "sft", normalizer: 39 } as const,
      optimizer: { ...OPTIMIZER, learning_rate: 1e-2 },
    };
    await trainer.step(policy, [good], request);
    const before = await trainer.score(policy, [good]);
    const weights = new Float32Array(40).fill(1);
    weights[20] = Infinity;
    const result = await trainer.step(policy, [{ ...good, weights }], request);
    deepEqual([result.skipped, result.step, result.version], [true, 1, 1]);
    deepEqual(await trainer.score(policy, [good]), before);
    const next = await trainer.step(policy, [good], request);
    deepEqual([next.skipped, next.step], [false, 2]);
  });
});

gpuTest("steps are AdamW's with every key of the request: those of its float64 reference", async (gpu) => {
  await withTrainer(gpu, async ({ trainer, adapter, read }) => {
    // None is usual, and each is felt: decay and clipping in every step, beta1, beta2 and eps from the second on.
    const keys = { beta1: 0.7, beta2: 0.9, eps: 1e-6, weight_decay: 0.3, max_grad_norm: 1e-3 };
    const policy = adapter(), samples = [sample(ids.slice(0, 40), 0)];
    const reference = await read(policy);
    for (const [i, lr] of [0.02, 0.01, 0.005].entries()) {
      const request = {
        loss: { type: "sft", normalizer: 39 } as const,
        optimizer: { ...keys, learning_rate: lr },
      };
      const { grad_norm, step } = await trainer.step(policy, samples, request);
      const gradient = Float64Array.from(await trainer.readGradient(policy));
      ok(grad_norm > 2 * keys.max_grad_norm, `the gradient of ${grad_norm} is clipped`);
      equal(step, i + 1);
      adamwReference(reference, gradient, { ...keys, lr, step });
      const found = await read(policy);
      // Each step rounds p, m and v to single precision, and the norm's square is a sum in it.
      expectClose(found.p, reference.p, { relative: 1e-5, absolute: 1e-6 }, "p");
      expectClose(found.m, reference.m, { relative: 1e-5, absolute: 1e-9 }, "m");
      expectClose(found.v, reference.v, { relative: 1e-5, absolute: 1e-14 }, "v");
    }
  });
});

gpuTest(
  "a sequence as long as a micro-batch fits, wherever its prompt ends; a longer one does not",
  async (gpu) => {
    const rows = 64;
    await withTrainer(gpu, async ({ trainer }) => {
      const shared = (prefix_length: number, length: number) =>
        sample(ids.slice(0, length), 0, {
          loss_mask: Array.from({ length }, (_, t) => t > prefix_length ? 1 : 0),
          prefix_length,
        });
      for (const prefix of [1, 9, 17, 33, 41]) {
        const [scores] = await trainer.score(null, [shared(prefix, rows)]);
        equal(scores!.length, rows - 1 - prefix);
      }
      // Whatever the alignment is, three times the rows are beyond the room that it leaves.
      await rejects(trainer.score(null, [shared(33, 3 * rows + 1)]), /Raise training.micro_batch_tokens/);
    }, rows);
  },
);

gpuTest("the share of parameters that eps dominates counts no padding", async (gpu) => {
  await withTrainer(gpu, async ({ trainer, adapter }) => {
    const fraction = async (eps: number) => {
      const fresh = adapter({ rank: 3, alpha: 6, targets: ["q_proj", "down_proj"] });
      const { eps_dominated_fraction } = await trainer.step(fresh, [sample(ids.slice(0, 40), 0)], {
        loss: { type: "sft", normalizer: 39 },
        optimizer: { ...OPTIMIZER, eps },
      });
      return eps_dominated_fraction;
    };
    equal(await fraction(1e3), 1);
    // B is zero at first, so A has no gradient; the two projections have as many values in A as in B.
    equal(await fraction(1e-15), 0.5);
  });
});

gpuTest("samples without trained tokens score to nothing", async (gpu) => {
  await withTrainer(gpu, async ({ trainer }) => {
    const silent = sample(ids.slice(0, 10), 0, { loss_mask: new Array(10).fill(0) });
    const loud = sample(ids.slice(0, 10), 1);
    deepEqual(await trainer.score(null, []), []);
    deepEqual(await trainer.score(null, [silent]), [new Float32Array(0)]);
    const [nothing, scores] = await trainer.score(null, [silent, loud]);
    equal(nothing!.length, 0);
    equal(scores!.length, 9);
  });
});

gpuTest("a call waits for the device as its queue demands, which changes no result", async (gpu) => {
  const parts = await loadParts(gpu, "f16"), { allocator, model } = parts, { recorder } = model;
  const samples = [0, 1, 2, 3].map((i) => sample(ids.slice(0, 200 + i), i));
  const waits: number[] = [], losses: number[] = [];
  const submitAndWait = recorder.submitAndWait.bind(recorder);
  recorder.submitAndWait = () => (waits[waits.length - 1]!++, submitAndWait());
  try {
    // Whether a micro-batch takes no time, or more than the queue may have.
    for (const ms of [0, 1e6]) {
      let now = 0;
      const clock = { ...systemClock, monotonic_ms: () => now += ms };
      const trainer = new Trainer(allocator, model, { micro_batch_tokens: 256, loss_chunk_rows: 64, clock });
      const adapter = new DeviceAdapter(allocator, adapterLayout(model.shape, LORA));
      adapter.write(initialParameters(adapter.layout, 3));
      for (let i = 0; i < 2; i++) {
        waits.push(0);
        const loss = { type: "sft", normalizer: 1 } as const;
        const result = await trainer.step(adapter, samples, { loss, optimizer: OPTIMIZER });
        equal(result.micro_batches, 4);
        losses.push(result.loss);
      }
      trainer.free();
    }
  } finally {
    parts.close();
  }
  deepEqual(waits, [1, 0, 3, 3], "the time of the first is unknown");
  equal(new Set(losses).size, 1);
});
