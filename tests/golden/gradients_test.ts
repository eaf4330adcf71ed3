import { deepEqual, equal, notDeepEqual, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest, lacksF16 } from "../../kernels/gpu_testing.ts";
import { withEmulatedMatrices } from "../../kernels/matmul/emulated_matrices_testing.ts";
import { Trainer } from "../../trainer/learning/trainer.ts";
import type { DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import {
  expectNear,
  goldenAdapter,
  type Kind,
  KINDS,
  type LoadedParts,
  loadParts,
  readGolden,
  readGoldenLora,
  sample,
  TOLERANCE,
} from "./golden.ts";
import { compareGradients, ELEMENT_TOLERANCE, readGradientFile, readGradients } from "./gradients.ts";

const golden = await readGolden(), lora = await readGoldenLora();
const batch = lora.batch.map(({ ids, mask }, i) => sample(ids, i, { loss_mask: mask }));
const optimizer = (learning_rate: number) => ({
  ...{ learning_rate, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 0 },
});
const supervised = (normalizer: number) => ({ type: "sft", normalizer } as const);

/** Runs `use` with a variant of the model on the device. */
async function withParts(
  gpu: Gpu,
  options: { kind: Kind; compute?: "f32" | "f16"; micro_batch_tokens?: number; loss_chunk_rows?: number },
  use: (parts: LoadedParts, adapter: DeviceAdapter) => Promise<void>,
): Promise<void> {
  const parts = await loadParts(gpu, options.kind, options);
  try {
    await use(parts, await goldenAdapter(parts));
  } finally {
    parts.close();
  }
}

const meanLoss = (logprobs: readonly Float32Array[]): number => {
  const all = logprobs.flatMap((row) => [...row]);
  return -all.reduce((a, b) => a + b) / all.length;
};

gpuTest(
  "every element of all 56 gradients in the forms of GPUs, which are given each layer when it is recorded",
  async (gpu) => {
    const as_gpu = { ...gpu, facts: { ...gpu.facts, software: false } };
    const known = await readGradientFile("models/tiny-agent/golden-lora/gradients-f16.safetensors");
    await withParts(as_gpu, { kind: "f16", loss_chunk_rows: 64 }, async (parts, adapter) => {
      const { trainer, model: { recorder, shape } } = parts,
        { counters } = recorder,
        before = counters.submits;
      const request = { loss: supervised(lora.masked_tokens), optimizer: optimizer(0) };
      const { loss, micro_batches } = await trainer.step(adapter, batch, request);
      equal(micro_batches, 1);
      // Layers forward and backward, chunks of logits, and the optimiser's step.
      const chunks = Math.ceil(lora.masked_tokens / 64);
      equal(counters.submits - before, 2 * shape.layers.length + chunks + 1);
      const { expected, tolerance } = { expected: lora.f16.loss, tolerance: TOLERANCE.f32 };
      expectNear(loss, { expected, tolerance: tolerance.loss, name: "the loss" });
      const worst = compareGradients(await readGradients(parts, adapter), known);
      ok(worst.tensor <= tolerance.gradient, `a gradient is off by a relative ${worst.tensor}`);
      ok(worst.element <= ELEMENT_TOLERANCE.f32, `an element is off by ${worst.element} of its rms`);
    });
  },
);

gpuTest(
  "layers that are computed again, chunks and micro-batches between submits change no gradient",
  async (gpu) => {
    const as_gpu = { ...gpu, facts: { ...gpu.facts, software: false } };
    const { ids, mask } = lora.batch[0]!, start = mask.indexOf(1) - 8, length = 80;
    const one = (first: number) =>
      sample(ids.slice(first, first + length), first, {
        loss_mask: Array.from({ length }, (_, t) => t > 0 ? 1 : 0),
      });
    const samples = [{ ...one(start - 40), trajectory: 0 }, { ...one(start), trajectory: 1 }];
    await withParts(as_gpu, { kind: "f16" }, async ({ allocator, model }, adapter) => {
      const request = { loss: supervised(100), optimizer: optimizer(0) }, { counters } = model.recorder;
      const take = async (gradient_checkpointing: boolean) => {
        const sizes = { micro_batch_tokens: 96, loss_chunk_rows: 64, gradient_checkpointing };
        const trainer = new Trainer(allocator, model, sizes), before = counters.submits;
        const { micro_batches } = await trainer.step(adapter, samples, request);
        const submits = counters.submits - before, gradient = await trainer.readGradient(adapter);
        trainer.free();
        return { micro_batches, submits, gradient };
      };
      const kept = await take(false), again = await take(true);
      // Layers forward and backward and two chunks of each micro-batch, the wait for the first one, and the end.
      const expected = 2 * (2 * model.shape.layers.length + 2) + 1 + 1;
      deepEqual([kept.micro_batches, kept.submits, again.submits], [2, expected, expected]);
      deepEqual(again.gradient, kept.gradient);
    });
  },
);

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
          const known_gradients = await readGradientFile(
            `models/tiny-agent/golden-lora/gradients-${kind}.safetensors`,
          );
          equal(known_gradients.size, 56);
          const worst = compareGradients(await readGradients(parts, adapter), known_gradients);
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
          const known = expected["adamw_lr1e-3_losses"].slice(0, 6),
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
      compute === "f16" ? lacksF16 : undefined,
    );
  }
}

gpuTest(
  "hidden states kept in half precision change gradients no more than such operands do",
  async (gpu) => {
    await withParts(gpu, { kind: "f16", compute: "f16" }, async (parts, adapter) => {
      const { allocator, model } = parts, request = { loss: supervised(lora.masked_tokens) };
      const known = await readGradientFile("models/tiny-agent/golden-lora/gradients-f16.safetensors");
      const take = async (gradient_checkpointing: boolean) => {
        const sizes = { micro_batch_tokens: 1024, loss_chunk_rows: 512, kv: "f16" } as const;
        const trainer = new Trainer(allocator, model, { ...sizes, gradient_checkpointing });
        const { loss } = await trainer.step(adapter, batch, { ...request, optimizer: optimizer(0) });
        const gradients = await readGradients({ ...parts, trainer }, adapter);
        trainer.free();
        return { loss, gradients, worst: compareGradients(gradients, known) };
      };
      const kept = await take(false), halves = await take(true);
      equal(halves.loss, kept.loss, "the forward pass does not round what it keeps");
      notDeepEqual(halves.gradients, kept.gradients);
      // Both round to 11 bits, and the operands' rounding is the larger part.
      console.log(`a gradient is off by ${kept.worst.tensor}, with kept halves by ${halves.worst.tensor}`);
      ok(halves.worst.tensor <= TOLERANCE.f16.gradient, `a gradient is off by ${halves.worst.tensor}`);
      ok(halves.worst.element <= ELEMENT_TOLERANCE.f16, `an element is off by ${halves.worst.element}`);
    });
  },
  lacksF16,
);

gpuTest(
  "products of scaled rows in matrices of subgroups change gradients no more than operands in f16 do",
  async (device) => {
    // Few tokens, because they are emulated. The golden gradients of all are compared with those of f32 above.
    const { ids, mask } = lora.batch[0]!, start = mask.indexOf(1) - 12;
    const cut = { loss_mask: mask.slice(start, start + 24) };
    const samples = [sample(ids.slice(start, start + 24), 0, cut)];
    const take = async (gpu: Gpu, compute: "f32" | "f16") => {
      let gradients: Awaited<ReturnType<typeof readGradients>> = new Map();
      const names = new Set<string>();
      await withParts(gpu, { kind: "q8_0", compute }, async (parts, adapter) => {
        const { recorder } = parts.model, dispatch = recorder.dispatch.bind(recorder);
        recorder.dispatch = (kernel, ...given) => {
          names.add(kernel.name);
          dispatch(kernel, ...given);
        };
        // As of a batch of a million tokens: most gradients are below the smallest f16.
        await parts.trainer.step(adapter, samples, { loss: supervised(1e6), optimizer: optimizer(0) });
        gradients = await readGradients(parts, adapter);
      });
      return { gradients, names };
    };
    const single = await take(device, "f32"), matrices = await take(withEmulatedMatrices(device), "f16");
    ok(matrices.names.has("matmul_nn_scaled_q8_0_f16_matrices"));
    equal(matrices.gradients.size, 56);
    const worst = compareGradients(matrices.gradients, single.gradients);
    console.log(`a gradient is off by ${worst.tensor}, an element by ${worst.element} of its tensor's rms`);
    ok(worst.tensor <= TOLERANCE.f16.gradient, `a gradient is off by ${worst.tensor}`);
    ok(worst.element <= ELEMENT_TOLERANCE.f16, `an element is off by ${worst.element}`);
  },
  lacksF16,
);

gpuTest("neither micro-batches nor a shared prefix change loss and gradients", async (gpu) => {
  // One question, four continuations of 48 tokens. Two train all tokens, two all but the first three.
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
