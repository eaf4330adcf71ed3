/** Gradients of other architectures: biases, adjacent pairs, windows, soft caps, norms after blocks. */

import { ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { randomBiases, writeChanged } from "./changed_model.ts";
import { writeGemma2 } from "./gemma2_model.ts";
import { loadParts, sample } from "./golden.ts";

const RANK = 4, RANDOM_DIRECTIONS = 3;
/**
 * Step lengths. Along the gradient the third derivative matters soon. In a random direction it hardly matters, but the
 * rounding of the scored loss, about 1e-7, needs a longer step.
 */
const STEP = 0.01, RANDOM_STEP = 0.1;
/** The allowed difference from the derivative, relative to the gradient's length: about five times the observed one. */
const BOUND = { along: 2e-4, random: 1.2e-5 };

interface Case {
  name: string;
  /** The fixture that the model is made from, or whose vocabulary it has. */
  from: string;
  goldens: string;
  /** Writes the model. */
  write: (from: string, to: string) => Promise<void>;
  /** A factor on the step lengths: shorter where soft caps bend the loss. */
  steps: number;
}

const TINYSTORIES = { goldens: "tinystories-656k-goldens.json", steps: 1 };
const CASES: Case[] = [
  { name: "llama", from: "tinystories-656k-llama-f16.gguf", ...TINYSTORIES, write: Deno.copyFile },
  {
    ...{ name: "qwen2 with biases", from: "tinystories-656k-qwen2-f16.gguf", ...TINYSTORIES },
    write: async (from, to) => await writeChanged(from, to, await randomBiases(from, 1)),
  },
  {
    name: "gemma2",
    from: "stories260k.gguf",
    goldens: "stories260k-goldens.json",
    write: writeGemma2,
    steps: 0.3,
  },
];

for (const { name, from, goldens, write, steps } of CASES) {
  gpuTest(
    `${name}: gradients are the central differences of the scored loss`,
    (gpu) =>
      withFolder(async (folder) => {
        const path = await fixturePath(`models/${from}`), changed = `${folder}/model.gguf`;
        await write(path, changed);
        const parts = await loadParts(gpu, changed, { micro_batch_tokens: 128 });
        try {
          const { trainer, allocator, model } = parts;
          const lora = { rank: RANK, alpha: 8, targets: [...LORA_TARGETS] };
          const adapter = new DeviceAdapter(allocator, adapterLayout(model.shape, lora));
          const rng = new Rng(rngKey(4, "values")), { elements } = adapter.layout;
          const values = new Float32Array(elements);
          for (const { a, b } of adapter.layout.pairs.flatMap((pairs) => Object.values(pairs))) {
            for (const { offset, shape: [rows, columns] } of [a, b]) {
              for (let i = 0; i < rows * columns; i++) values[offset + i] = 0.1 * rng.normal();
            }
          }
          adapter.write(values);
          const texts = (await readFixtureJson(`models/${goldens}`))[from];
          const samples = [0, 1].map((i) => sample(texts[i].greedy_ids, i));
          const normalizer = samples.reduce((sum, { tokens }) => sum + tokens.length - 1, 0);
          const optimizer = {
            learning_rate: 0,
            beta1: 0.9,
            beta2: 0.999,
            eps: 1e-8,
            weight_decay: 0,
            max_grad_norm: 0,
          };
          await trainer.step(adapter, samples, { loss: { type: "sft", normalizer }, optimizer });
          const gradient = await trainer.readGradient(adapter), norm = Math.hypot(...gradient);
          const loss = async (direction: ArrayLike<number>, step: number) => {
            adapter.write(values.map((value, i) => value + step * direction[i]!));
            const rows = await trainer.score(adapter, samples);
            return -rows.flatMap((row) => [...row]).reduce((a, b) => a + b) / normalizer;
          };
          const derivative = async (direction: ArrayLike<number>, step: number) =>
            (await loss(direction, step) - await loss(direction, -step)) / (2 * step);
          const along = await derivative(gradient.map((g) => g / norm), steps * STEP) / norm - 1;
          ok(Math.abs(along) <= BOUND.along, `along the gradient the difference is ${along} off`);
          let worst = 0;
          for (let n = 0; n < RANDOM_DIRECTIONS; n++) {
            const random = Float64Array.from(gradient, () => rng.normal());
            const length = Math.hypot(...random), direction = random.map((x) => x / length);
            const expected = direction.reduce((sum, x, i) => sum + x * gradient[i]!, 0);
            const error = (await derivative(direction, steps * RANDOM_STEP) - expected) / norm;
            ok(Math.abs(error) <= BOUND.random, `in direction ${n} the difference is ${error} off`);
            worst = Math.max(worst, Math.abs(error));
          }
          console.log(
            `${name}: off by ${along.toExponential(1)} along, ${worst.toExponential(1)} in random directions`,
          );
        } finally {
          parts.close();
        }
      }),
  );
}
