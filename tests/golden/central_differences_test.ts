import { equal, ok } from "node:assert/strict";
import { RandomStream, streamKey } from "../../core/random.ts";
import { gpuTest } from "../../kernels/testing.ts";
import type { LoraTarget } from "../../trainer/engine/protocol.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { loadParts, readGolden, sample } from "./golden.ts";

const TARGETS: LoraTarget[] = ["k_proj", "o_proj", "up_proj"];
const RANK = 3;
/** Length of a step along a direction: the f32 loss is good to 1e-7, and the third derivative is felt at 1e-1. */
const STEP = 0.02;

type Part = { target: LoraTarget; half: "a" | "b" };

/** Where the elements of one half of a target's pairs lie in the flat array; without the padding of the rank. */
function elementsOf({ layout }: DeviceAdapter, { target, half }: Part): number[] {
  const out: number[] = [];
  for (const pairs of layout.pairs) {
    const { offset, shape: [rows, columns] } = pairs[target]![half];
    const [used_rows, used_columns] = half === "a" ? [RANK, columns] : [rows, RANK];
    for (let row = 0; row < used_rows; row++) {
      for (let column = 0; column < used_columns; column++) out.push(offset + row * columns + column);
    }
  }
  return out;
}

/** Half the gradient's own direction, half a random one: an error of the gradient shows in the second. */
function direction(gradient: Float32Array, places: number[], seed: number): Float64Array {
  const stream = new RandomStream(streamKey(seed, "direction"));
  const random = places.map(() => stream.normal()), own = places.map((at) => gradient[at]!);
  const [random_norm, own_norm] = [Math.hypot(...random), Math.hypot(...own)];
  ok(own_norm > 1e-3, "there is a gradient");
  const out = new Float64Array(gradient.length);
  places.forEach((at, i) => out[at] = (own[i]! / own_norm + random[i]! / random_norm) / Math.SQRT2);
  return out;
}

gpuTest("rank 3 on some targets: gradients are the central differences of the scored loss", async (gpu) => {
  const parts = await loadParts(gpu, "f16", { micro_batch_tokens: 128 }),
    { trainer, allocator, model } = parts;
  try {
    const lora = { rank: RANK, alpha: 6, targets: TARGETS };
    const adapter = new DeviceAdapter(allocator, adapterLayout(model.shape, lora));
    const parts_of = TARGETS.flatMap((target): Part[] => [{ target, half: "a" }, { target, half: "b" }]);
    const values = new Float32Array(adapter.layout.elements);
    const stream = new RandomStream(streamKey(4, "values"));
    for (const part of parts_of) {
      for (const at of elementsOf(adapter, part)) values[at] = 0.1 * stream.normal();
    }
    adapter.write(values);

    const { prompts } = await readGolden();
    const samples = [0, 1].map((i) => sample(prompts[8 * i]!.ids.slice(-30), i));
    const count = samples.reduce((sum, { loss_mask }) => sum + loss_mask.reduce((a, b) => a + b, 0), 0);
    const optimizer = {
      learning_rate: 0,
      beta1: 0.9,
      beta2: 0.999,
      eps: 1e-8,
      weight_decay: 0,
      max_grad_norm: 0,
    };
    const { grad_norm } = await trainer.step(adapter, samples, {
      loss: { type: "sft", normalizer: count },
      optimizer,
    });
    const gradient = await trainer.readGradient(adapter);
    const used = new Set(parts_of.flatMap((part) => elementsOf(adapter, part)));
    equal(used.size, adapter.layout.parameters);
    ok(gradient.every((g, at) => used.has(at) || g === 0), "the padding of the rank has no gradient");
    ok(Math.abs(Math.hypot(...gradient) / grad_norm - 1) < 1e-5);

    const loss = async (at: Float64Array, step: number) => {
      adapter.write(values.map((value, i) => value + step * at[i]!));
      const logprobs = await trainer.score(adapter, samples);
      return -logprobs.flatMap((row) => [...row]).reduce((a, b) => a + b) / count;
    };
    let worst = 0;
    for (const [seed, part] of parts_of.entries()) {
      const along = direction(gradient, elementsOf(adapter, part), seed);
      const expected = along.reduce((sum, d, i) => sum + d * gradient[i]!, 0);
      const numeric = (await loss(along, STEP) - await loss(along, -STEP)) / (2 * STEP);
      const error = Math.abs(numeric / expected - 1);
      ok(error < 1e-2, `${part.target}, ${part.half}: ${expected}, by differences ${numeric}`);
      worst = Math.max(worst, error);
    }
    console.log(`central differences and gradients differ by at most a relative ${worst.toExponential(1)}`);
  } finally {
    parts.close();
  }
});
