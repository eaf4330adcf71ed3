import { deepEqual, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { Grid, Kernel, Operands, Params } from "../../kernels/kernel.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { deviceForm } from "../../kernels/variant.ts";
import { openGguf } from "../formats/gguf.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../model/device_adapter.ts";
import { loadModel } from "../model/load_model.ts";
import { Batcher } from "./batcher.ts";
import { Sampler } from "./sampler.ts";

const STEPS = 4, TOKENS = 3 * STEPS;

const PROMPT = Array.from({ length: 30 }, (_, i) => (7 * i + 5) % 256);

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

/** Samples without an adapter, with one, and without again when the cache has been freed, in blocks of so many steps. */
async function sampleThrice(gpu: Gpu, block_steps: number) {
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
  for (const [id, own] of [null, adapter, null].entries()) {
    const sequence = batcher.open({ id, adapter: own, parent: null, tokens: [...PROMPT] });
    const rng_key = [1, own ? 1 : 0] as const;
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key, mask: null };
    batcher.generate(sequence, { sequence: id, max_tokens: TOKENS, stop_tokens: [], sampling });
    await batcher.step();
    while (sequence.generation) blocks.push(await dispatchesOf(model.recorder, () => batcher.step()));
    sampled.push(sequence.tokens.slice(PROMPT.length));
    await batcher.close(sequence);
    batcher.releaseMemory();
  }
  model.recorder.destroy();
  allocator.destroy();
  return { sampled, blocks };
}

gpuTest("the steps of a block are recorded once, and sample what single steps sample", async (gpu) => {
  const single = await sampleThrice(gpu, 1), together = await sampleThrice(gpu, STEPS);
  deepEqual(together.sampled, single.sampled);
  deepEqual(together.sampled[2], together.sampled[0]);
  ok(together.sampled.every(({ length }) => length === TOKENS));
  const passes = together.blocks.map(({ names }) =>
    names.filter((name) => name.startsWith("embedding")).length
  );
  // A software adapter repeats the pass of the block before, as long as its buffers are there.
  const is_lanes = deviceForm(gpu) === "lanes", later = is_lanes ? 0 : 1;
  deepEqual([passes[1], passes[2], passes[4], passes[5], passes[7], passes[8]], Array(6).fill(later));
  // In the first one the activations are allocated, maybe when a part of the pass is recorded already.
  ok([passes[0], passes[3], passes[6]].every((count) => count === 1 || count === 2), `${passes}`);
  const { names, submitted } = together.blocks.at(-1)!;
  const repeated = (submitted - names.length) / (is_lanes ? STEPS : STEPS - 1);
  ok(Number.isInteger(repeated) && repeated > 20, `${repeated} dispatches of a step are repeated`);
});
