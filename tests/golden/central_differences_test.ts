import { equal, ok } from "node:assert/strict";
import type { LoraTarget } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { type LoadedParts, loadParts, readGolden, sample } from "./golden.ts";

/** Two read one input: the second's columns begin after the first's padded rank. */
const TARGETS: LoraTarget[] = ["k_proj", "v_proj", "o_proj", "up_proj"];
const RANK = 3;
/**
 * Step lengths. A longer step outweighs the rounding of the scored loss, about 1e-7, but feels the third derivative:
 * soon along the gradient, later for a single element, hardly ever in a random direction.
 */
const STEP = 0.01, ELEMENT_STEP = 0.05, RANDOM_STEP = 0.1;
/**
 * The allowed difference from the derivative, relative to it, or, across the gradient, to the gradient's length: five
 * to seven times the error of these steps. A random direction sees 1/sqrt(n) of an error in n elements.
 */
const BOUND = { along: 5e-3, element: 1e-2, turned: 1.5e-4, random: 8e-5 };

type Part = { target: LoraTarget; half: "a" | "b" };
const PARTS = TARGETS.flatMap((target): Part[] => [{ target, half: "a" }, { target, half: "b" }]);

/** The positions of one half of a target's pairs in the flat array, without the padding of the rank. */
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

/** Random numbers at some positions of the flat array. */
function randomAt(places: readonly number[], seed: number): (at: number) => number {
  const rng = new Rng(rngKey(seed, "direction"));
  const values = new Map(places.map((at) => [at, rng.normal()]));
  return (at) => values.get(at)!;
}

/** The direction of length 1 with given values at some positions of an array. */
function unit(
  { elements, places }: { elements: number; places: readonly number[] },
  value: (at: number) => number,
): Float64Array {
  const out = new Float64Array(elements);
  for (const at of places) out[at] = value(at);
  const norm = Math.hypot(...places.map((at) => out[at]!));
  return out.map((x) => x / norm);
}

/** A direction minus its component along the gradient, of length 1: the loss does not change along it. */
function orthogonal(gradient: Float32Array, direction: Float64Array, places: readonly number[]) {
  const at = (sum: (at: number) => number) => places.reduce((total, place) => total + sum(place), 0);
  const share = at((i) => direction[i]! * gradient[i]!) / at((i) => gradient[i]! ** 2);
  return unit({ elements: direction.length, places }, (i) => direction[i]! - share * gradient[i]!);
}

/** A small adapter without zeros, and the loss and gradient of a step on two samples. */
async function differentiated({ trainer, allocator, model }: LoadedParts) {
  const lora = { rank: RANK, alpha: 6, targets: TARGETS };
  const adapter = new DeviceAdapter(allocator, adapterLayout(model.shape, lora));
  const values = new Float32Array(adapter.layout.elements);
  const rng = new Rng(rngKey(4, "values"));
  for (const part of PARTS) {
    for (const at of elementsOf(adapter, part)) values[at] = 0.1 * rng.normal();
  }
  adapter.write(values);
  const { prompts } = await readGolden();
  const samples = [0, 1].map((i) => sample(prompts[8 * i]!.ids.slice(-30), i));
  const normalizer = samples.reduce((sum, { loss_mask }) => sum + loss_mask.reduce((a, b) => a + b, 0), 0);
  const { grad_norm } = await trainer.step(adapter, samples, {
    loss: { type: "sft", normalizer },
    optimizer: {
      ...{ learning_rate: 0, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
      ...{ weight_decay: 0, max_grad_norm: 0 },
    },
  });
  const gradient = await trainer.readGradient(adapter);
  const loss = async (along: Float64Array, step: number) => {
    adapter.write(values.map((value, i) => value + step * along[i]!));
    const logprobs = await trainer.score(adapter, samples);
    return -logprobs.flatMap((row) => [...row]).reduce((a, b) => a + b) / normalizer;
  };
  /** The loss's derivative along a direction, by central differences. */
  const derivative = async (along: Float64Array, step: number) =>
    (await loss(along, step) - await loss(along, -step)) / (2 * step);
  return { adapter, gradient, grad_norm, derivative };
}

gpuTest("rank 3 on some targets: gradients are the central differences of the scored loss", async (gpu) => {
  const parts = await loadParts(gpu, "f16", { micro_batch_tokens: 128 });
  try {
    const { adapter, gradient, grad_norm, derivative } = await differentiated(parts);
    const used = new Set(PARTS.flatMap((part) => elementsOf(adapter, part)));
    equal(used.size, adapter.layout.parameters);
    ok(gradient.every((g, at) => used.has(at) || g === 0), "the padding of the rank has no gradient");
    ok(Math.abs(Math.hypot(...gradient) / grad_norm - 1) < 1e-5);
    const worst = { along: 0, element: 0, turned: 0, random: 0 }, elements = gradient.length;
    const judge = (kind: keyof typeof worst, error: number, where: string) => {
      ok(Math.abs(error) <= BOUND[kind], `${where}, ${kind}: a relative error of ${error}`);
      worst[kind] = Math.max(worst[kind], Math.abs(error));
    };
    for (const [seed, part] of PARTS.entries()) {
      const places = elementsOf(adapter, part), where = `${part.target}, ${part.half}`;
      const norm = Math.hypot(...places.map((at) => gradient[at]!));
      ok(norm > 0.1, "there is a gradient");
      const along = unit({ elements, places }, (at) => gradient[at]!);
      judge("along", await derivative(along, STEP) / norm - 1, where);
      const { turned, random } = directionsAcross(adapter, { gradient, places, part, seed });
      for (const direction of turned) judge("turned", await derivative(direction, STEP) / norm, where);
      judge("random", await derivative(random, RANDOM_STEP) / norm, where);
      for (const at of someElements(gradient, places)) {
        const alone = unit({ elements, places: [at] }, () => 1);
        judge(
          "element",
          await derivative(alone, ELEMENT_STEP) / gradient[at]! - 1,
          `${where}, element ${at}`,
        );
      }
    }
    const told = Object.entries(worst).map(([kind, error]) => `${kind} ${error.toExponential(1)}`).join(", ");
    console.log(`central differences and gradients differ by at most a relative ${told}`);
  } finally {
    parts.close();
  }
});

/**
 * Directions across a part's gradient, in which an error does not show along the gradient. `turned` has the gradient's
 * values with the sign changed in every second layer, shifted by one element; `random` is any other direction.
 */
function directionsAcross(
  { layout }: DeviceAdapter,
  { gradient, places, part: { target, half }, seed }: {
    gradient: Float32Array;
    places: readonly number[];
    part: Part;
    seed: number;
  },
): { turned: Float64Array[]; random: Float64Array } {
  const layerOf = (at: number) => layout.pairs.findLastIndex((pairs) => pairs[target]![half].offset <= at);
  const moved = new Map(places.map((at, i) => [at, gradient[places[(i + 1) % places.length]!]!]));
  const across = (value: (at: number) => number) =>
    orthogonal(gradient, unit({ elements: gradient.length, places }, value), places);
  return {
    turned: [
      across((at) => gradient[at]! * (layerOf(at) % 2 === 0 ? 1 : -1)),
      across((at) => moved.get(at)!),
    ],
    random: across(randomAt(places, seed)),
  };
}

/** The positions of the largest element and of one that a quarter of them exceeds. */
function someElements(gradient: Float32Array, places: readonly number[]): number[] {
  const order = [...places].sort((a, b) => Math.abs(gradient[b]!) - Math.abs(gradient[a]!));
  return [order[0]!, order[places.length >> 2]!];
}
