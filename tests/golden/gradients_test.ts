import { deepEqual, equal, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/testing.ts";
import { ggufName } from "../../trainer/formats/lora.ts";
import type { LoraTarget } from "../../trainer/engine/protocol.ts";
import { readSafetensors } from "../../trainer/formats/safetensors.ts";
import { type DeviceAdapter, unpackAdapter } from "../../trainer/model/device_adapter.ts";
import { fixturePath } from "../fixture.ts";
import {
  expectNear,
  goldenAdapter,
  type Kind,
  KINDS,
  type LoadedParts,
  loadParts,
  readGolden,
  readGoldenLora,
  relativeL2,
  sample,
  TOLERANCE,
} from "./golden.ts";

/**
 * The goldens' README: single elements of float32 arithmetic are 1.4e-4 of the tensor's root mean square off. With
 * operands in half precision they may be off by as much more as whole tensors are.
 */
const ELEMENT_TOLERANCE = {
  f32: 3 * 1.4e-4,
  f16: 3 * 1.4e-4 * TOLERANCE.f16.gradient / TOLERANCE.f32.gradient,
};

const golden = await readGolden(), lora = await readGoldenLora();
const batch = lora.batch.map(({ ids, mask }, i) => sample(ids, i, { loss_mask: mask }));
const optimizer = (learning_rate: number) => ({
  ...{ learning_rate, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 0 },
});
const supervised = (normalizer: number) => ({ type: "sft", normalizer } as const);

/** Runs `use` with a model of a kind on the device. */
async function withParts(
  gpu: Gpu,
  options: { kind: Kind; compute?: "f32" | "f16"; micro_batch_tokens?: number },
  use: (parts: LoadedParts, adapter: DeviceAdapter) => Promise<void>,
): Promise<void> {
  const parts = await loadParts(gpu, options.kind, options);
  try {
    await use(parts, await goldenAdapter(parts));
  } finally {
    parts.close();
  }
}

/** The gradients that the last step left, by `blk.<layer>.<projection>.<A|B>`. */
async function readGradients(
  { trainer, model }: LoadedParts,
  adapter: DeviceAdapter,
): Promise<Map<string, Float32Array>> {
  const flat = unpackAdapter(adapter.layout, model.shape, await trainer.readGradient(adapter));
  const out = new Map<string, Float32Array>();
  for (const [key, { a, b }] of flat.tensors) {
    const [block, layer, target] = key.split(".");
    const name = `${block}.${layer}.${ggufName(target as LoraTarget)}`;
    out.set(`${name}.A`, a).set(`${name}.B`, b);
  }
  return out;
}

async function goldenGradients(kind: Kind): Promise<Map<string, Float32Array>> {
  const path = await fixturePath(`models/tiny-agent/golden-lora/gradients-${kind}.safetensors`);
  const { tensors } = await readSafetensors(path);
  return new Map(
    [...tensors].map(([name, { data }]) => [name, new Float32Array(data.slice().buffer)]),
  );
}

/** The largest relative error of a tensor, and the largest of an element relative to its tensor's rms. */
function compareGradients(
  found: Map<string, Float32Array>,
  expected: Map<string, Float32Array>,
): { tensor: number; element: number } {
  equal(expected.size, 56);
  deepEqual([...found.keys()].sort(), [...expected.keys()].sort());
  const worst = { tensor: 0, element: 0 };
  for (const [name, values] of expected) {
    const actual = found.get(name)!;
    equal(actual.length, values.length, name);
    const rms = Math.hypot(...values) / Math.sqrt(values.length);
    values.forEach((value, i) => worst.element = Math.max(worst.element, Math.abs(value - actual[i]!) / rms));
    worst.tensor = Math.max(worst.tensor, relativeL2(actual, values));
  }
  return worst;
}

const meanLoss = (logprobs: readonly Float32Array[]): number => {
  const all = logprobs.flatMap((row) => [...row]);
  return -all.reduce((a, b) => a + b) / all.length;
};

for (const kind of KINDS) {
  for (const compute of ["f32", "f16"] as const) {
    gpuTest(
      `${kind}, ${compute} operands: every element of all 56 gradients, AdamW's losses`,
      async (gpu) => {
        await withParts(gpu, { kind, compute }, async (parts, adapter) => {
          const { trainer } = parts, expected = lora[kind], tolerance = TOLERANCE[compute];
          const request = { loss: supervised(lora.masked_tokens), optimizer: optimizer(1e-3) };
          const first = await trainer.step(adapter, batch, request);
          expectNear(first.loss, { expected: expected.loss, tolerance: tolerance.loss, name: "the loss" });
          const norm = first.grad_norm / expected.gradient_l2;
          expectNear(norm, { expected: 1, tolerance: tolerance.gradient, name: "the norm's ratio" });
          const worst = compareGradients(await readGradients(parts, adapter), await goldenGradients(kind));
          console.log(
            `${kind}, ${compute}: the loss is off by ${
              (first.loss - expected.loss).toExponential(1)
            }, a gradient by ` +
              `${worst.tensor.toExponential(1)}, an element by ${
                worst.element.toExponential(1)
              } of its tensor's rms`,
          );
          ok(worst.tensor <= tolerance.gradient, `a gradient is off by a relative ${worst.tensor}`);
          ok(worst.element <= ELEMENT_TOLERANCE[compute], `an element is off by ${worst.element} of its rms`);
          // Half precision takes software adapters three times as long: one step of five shows as much.
          const known = expected["adamw_lr1e-3_losses"].slice(0, compute === "f32" ? 6 : 2),
            losses = [first.loss];
          while (losses.length < known.length - 1) {
            losses.push((await trainer.step(adapter, batch, request)).loss);
          }
          losses.push(meanLoss(await trainer.score(adapter, batch)));
          losses.forEach((loss, step) => {
            const known = expected["adamw_lr1e-3_losses"][step]!;
            expectNear(loss, {
              expected: known,
              tolerance: tolerance.loss,
              name: `the loss after ${step} steps`,
            });
          });
          const base = meanLoss(await trainer.score(null, batch));
          const without = { expected: expected.loss_without_adapter, tolerance: tolerance.loss };
          expectNear(base, { ...without, name: "the loss without adapter" });
        });
      },
    );
  }
}

gpuTest("neither micro-batches nor a shared prefix change loss and gradients", async (gpu) => {
  // One question, four continuations of 48 tokens. Two train all of them, two all but the first three.
  const prompt = golden.prompts[0]!.ids, prefix_length = prompt.length;
  const make = (shared: number) =>
    golden.prompts.slice(0, 4).map(({ f16 }, i) => {
      const ids = [...prompt, ...f16.greedy.ids], first = prefix_length + (i < 2 ? 0 : 3);
      const loss_mask = ids.map((_, t) => t >= first ? 1 : 0);
      return sample(ids, i, { loss_mask, prefix_length: shared, prefix_group: 7 });
    });
  const cases = [
    { micro_batch_tokens: 1500, shared: 0, micro_batches: 1 },
    { micro_batch_tokens: 750, shared: 0, micro_batches: 2 },
    { micro_batch_tokens: 400, shared: 0, micro_batches: 4 },
    { micro_batch_tokens: 560, shared: prefix_length, micro_batches: 1 },
    { micro_batch_tokens: 440, shared: prefix_length, micro_batches: 2 },
  ];
  const request = { loss: supervised(4 * 48 - 6), optimizer: optimizer(0) };
  const results: { loss: number; norm: number; tensors: Map<string, Float32Array> }[] = [];
  for (const { micro_batch_tokens, shared, micro_batches } of cases) {
    await withParts(gpu, { kind: "f16", micro_batch_tokens }, async (parts, adapter) => {
      const found = await parts.trainer.step(adapter, make(shared), request);
      equal(found.micro_batches, micro_batches);
      const tensors = await readGradients(parts, adapter);
      results.push({ loss: found.loss, norm: found.grad_norm, tensors });
    });
  }
  const whole = results[0]!;
  let worst = 0;
  for (const other of results.slice(1)) {
    expectNear(other.loss / whole.loss, { expected: 1, tolerance: 1e-6, name: "the loss's ratio" });
    expectNear(other.norm / whole.norm, { expected: 1, tolerance: 1e-6, name: "the norm's ratio" });
    worst = Math.max(worst, compareGradients(other.tensors, whole.tensors).tensor);
  }
  console.log(`cut into other micro-batches a gradient differs by at most ${worst.toExponential(1)}`);
  ok(worst <= 1e-5, "sums in another order differ by rounding only");
});
