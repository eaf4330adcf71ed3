import { deepEqual, equal, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { Grid, Kernel, Operands, Params } from "../../kernels/kernel.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { openGguf } from "../formats/gguf.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../model/device_adapter.ts";
import { loadModel } from "../model/load_model.ts";
import { Batcher } from "./batcher.ts";
import { Sampler } from "./sampler.ts";

const STEPS = 4, TOKENS = 2 * STEPS;

/** The names of kernels that a body dispatches, and how many dispatches it submits. */
async function dispatchesOf(recorder: Recorder, body: () => Promise<unknown>) {
  const names: string[] = [], { dispatch } = recorder, before = recorder.counters.dispatches;
  recorder.dispatch = <K extends Kernel>(...given: [K, Params<K>, Operands<K>, Grid]) => {
    names.push(given[0].name);
    dispatch.apply(recorder, given);
  };
  try {
    await body();
  } finally {
    recorder.dispatch = dispatch;
  }
  return { names, submitted: recorder.counters.dispatches - before };
}

/** Samples without an adapter and then with one, in blocks of so many steps. */
async function sampleTwice(gpu: Gpu, block_steps: number) {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const { model, allocator } = await loadModel(gpu, file, { compute: "f32", max_context: 64 });
  const layout = adapterLayout(model.shape, {
    rank: 16,
    alpha: 16,
    targets: ["q_proj", "v_proj", "up_proj"],
  });
  const adapter = new DeviceAdapter(allocator, layout);
  // B of a new adapter is zero.
  adapter.write(initialParameters(layout, 1).map((value) => value + 0.01));
  const sampler = new Sampler(allocator, model, {
    ...{ max_sequences: 2, max_prefill: 32, slots: 4, slot_pages: 2, pages: 8, kv: "f32", block_steps },
  });
  const batcher = new Batcher(sampler, { max_context: 64 }, {
    sampled: () => {},
    failed: (_, error) => {
      throw new Error(error.message);
    },
  });
  const sampled: number[][] = [], blocks: Awaited<ReturnType<typeof dispatchesOf>>[] = [];
  for (const [id, own] of [null, adapter].entries()) {
    const tokens = [5, 9, 17, 3], sequence = batcher.open({ id, adapter: own, parent: null, tokens });
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, id] as const, mask: null };
    batcher.generate(sequence, { sequence: id, max_tokens: TOKENS, stop_tokens: [], sampling });
    await batcher.step();
    while (sequence.generation) blocks.push(await dispatchesOf(model.recorder, () => batcher.step()));
    sampled.push(sequence.tokens.slice(tokens.length));
  }
  model.recorder.destroy();
  allocator.destroy();
  return { sampled, blocks };
}

gpuTest("the steps of a block are recorded once, and sample what single steps sample", async (gpu) => {
  const single = await sampleTwice(gpu, 1), together = await sampleTwice(gpu, STEPS);
  deepEqual(together.sampled, single.sampled);
  ok(together.sampled.every(({ length }) => length === TOKENS));
  // The adapter's larger activations replace those before in the first step of its first block.
  const recorded = together.blocks.map(({ names }) =>
    names.filter((name) => name.startsWith("embedding")).length
  );
  ok(recorded.length >= 4 && recorded.every((count) => count <= 2));
  equal(recorded.at(-1), 1);
  const { names, submitted } = together.blocks.at(-1)!, repeated = (submitted - names.length) / (STEPS - 1);
  ok(
    Number.isInteger(repeated) && repeated > names.length / 2,
    `${repeated} of ${names.length} are repeated`,
  );
});
