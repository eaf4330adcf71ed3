/** Gradients through other architectures: biases, adjacent pairs, heads without norms. */

import { ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { randomBiases, writeChanged } from "./changed_model.ts";
import { loadParts, sample } from "./golden.ts";

const RANK = 4, RANDOM_DIRECTIONS = 3;
/**
 * Lengths of a step: along the gradient the third derivative shows soon, in a random direction hardly ever, and there the
 * rounding of the scored loss, some 1e-7, needs a longer one.
 */
const STEP = 0.01, RANDOM_STEP = 0.1;
/** How far a difference may be from the derivative, relative to the gradient's length: some five times what is seen. */
const BOUND = { along: 2e-4, random: 1.2e-5 };

const MODELS = [
  ["tinystories-656k-llama-f16.gguf", () => Promise.resolve(new Map())],
  ["tinystories-656k-qwen2-f16.gguf", (path: string) => randomBiases(path, 1)],
] as const;

for (const [file, changes] of MODELS) {
  gpuTest(
    `${file}: gradients are the central differences of the scored loss`,
    (gpu) =>
      withFolder(async (folder) => {
        const path = await fixturePath(`models/${file}`), changed = `${folder}/model.gguf`;
        await writeChanged(path, changed, await changes(path));
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
          const goldens = (await readFixtureJson("models/tinystories-656k-goldens.json"))[file];
          const samples = [0, 1].map((i) => sample(goldens[i].greedy_ids, i));
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
          const along = await derivative(gradient.map((g) => g / norm), STEP) / norm - 1;
          ok(Math.abs(along) <= BOUND.along, `along the gradient the difference is ${along} off`);
          let worst = 0;
          for (let n = 0; n < RANDOM_DIRECTIONS; n++) {
            const random = Float64Array.from(gradient, () => rng.normal());
            const length = Math.hypot(...random), direction = random.map((x) => x / length);
            const expected = direction.reduce((sum, x, i) => sum + x * gradient[i]!, 0);
            const error = (await derivative(direction, RANDOM_STEP) - expected) / norm;
            ok(Math.abs(error) <= BOUND.random, `in direction ${n} the difference is ${error} off`);
            worst = Math.max(worst, Math.abs(error));
          }
          console.log(
            `${file}: off by ${along.toExponential(1)} along, ${worst.toExponential(1)} in random directions`,
          );
        } finally {
          parts.close();
        }
      }),
  );
}
