/**
 * Profiles a decode step and a training step: every kernel of a recorded step, timed separately. Copies into textures, which a
 * software adapter has, are in the entire step's time and in no kernel's.
 */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Grid, Kernel } from "../../kernels/kernel.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { Trainer } from "../../trainer/learning/trainer.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../../trainer/model/device_adapter.ts";
import { type LoadedModel, loadModel } from "../../trainer/model/load_model.ts";
import { Batcher } from "../../trainer/sampler/batcher.ts";
import { Sampler } from "../../trainer/sampler/sampler.ts";
import type { KernelBench } from "./context.ts";
import { round } from "./report.ts";
import { LORA, OPTIMIZER, randomTokens, sftSamples, type StepSizes } from "./step_sizes.ts";

/** Rows of the decode step. */
const DECODE_ROWS = 32, QUICK_DECODE_ROWS = 2;

/** Parameters that identify shapes. */
const SIZES = new Set(["rows", "columns", "depth", "rank", "items", "width", "heads", "count"]);

/** A recorded dispatch. */
interface Dispatch {
  kernel: Kernel;
  params: Record<string, number>;
  operands: Record<string, Tensor>;
  grid: Grid;
}

/** Dispatches of one kernel with one shape, such as those of all layers. */
interface Group {
  name: string;
  /** The parameters that identify the shape. */
  params: Record<string, number>;
  dispatches: Dispatch[];
}

/** Records all dispatches of `body`, which runs as usual: none is repeated from before. */
async function recordDispatches(
  recorder: Recorder,
  body: () => Promise<unknown>,
): Promise<Dispatch[]> {
  const dispatches: Dispatch[] = [], original = recorder.dispatch;
  recorder.forgetAll();
  recorder.dispatch = (...given) => {
    const [kernel, params, operands, grid] = given;
    dispatches.push({ kernel, params, operands, grid } as unknown as Dispatch);
    original.apply(recorder, given);
  };
  try {
    await body();
  } finally {
    recorder.dispatch = original;
  }
  return dispatches.filter(({ grid }) => !grid.includes(0));
}

/**
 * In the order of first dispatch. The dispatch that advances the rows of a decode step comes last; otherwise the others
 * would idle.
 */
export function groupDispatches(dispatches: readonly Dispatch[]): Group[] {
  const groups = new Map<string, Group>();
  for (const dispatch of dispatches) {
    const { kernel: { name } } = dispatch;
    const params = Object.fromEntries(
      Object.entries(dispatch.params).filter(([key, value]) => SIZES.has(key) && value > 0),
    );
    const key = JSON.stringify([name, params]);
    const group = groups.get(key);
    if (group) group.dispatches.push(dispatch);
    else groups.set(key, { name, params, dispatches: [dispatch] });
  }
  const list = [...groups.values()];
  return [...list.filter(({ name }) => name !== "advance"), ...list.filter(({ name }) => name === "advance")];
}

/** The model that a profiled step runs on. */
interface Subject extends LoadedModel {
  bench: KernelBench;
  sizes: StepSizes;
  adapter: DeviceAdapter;
}

/** Profiles a decode step and a training step of one micro-batch. */
export async function benchProfile(bench: KernelBench, sizes: StepSizes): Promise<void> {
  const { max_context } = sizes;
  using file = await openGguf(bench.path);
  const loaded = await loadModel(bench.gpu, file, { compute: "auto", max_context });
  const layout = adapterLayout(loaded.model.shape, LORA);
  const adapter = new DeviceAdapter(loaded.allocator, layout);
  adapter.write(initialParameters(layout, 1));
  try {
    await profileDecode({ ...loaded, bench, sizes, adapter });
    if (!bench.quick) await profileTraining({ ...loaded, bench, sizes, adapter });
  } finally {
    loaded.model.recorder.destroy();
    loaded.allocator.destroy();
  }
}

async function profileTraining({ bench, sizes, allocator, model, adapter }: Subject): Promise<void> {
  const { sft, micro_batch_tokens } = sizes, { sequences } = sft;
  const tokens = Math.min(sft.tokens, Math.floor(micro_batch_tokens / sequences));
  const samples = sftSamples({ sequences, tokens }, model.shape.vocabulary);
  const trainer = new Trainer(allocator, model, sizes);
  const loss = { type: "sft", normalizer: sequences * tokens / 2 } as const;
  await profileStep(bench, model.recorder, {
    name: `train, ${sequences} x ${tokens} tokens`,
    run: () => trainer.step(adapter, samples, { loss, optimizer: OPTIMIZER }),
  });
  trainer.free();
}

async function profileDecode({ bench, sizes, allocator, model, adapter }: Subject): Promise<void> {
  const max_sequences = bench.quick ? QUICK_DECODE_ROWS : DECODE_ROWS,
    { decode_prompt, decode_group, max_context } = sizes;
  const slot_pages = ceilDiv(max_context, PAGE_TOKENS);
  const sampler = new Sampler(allocator, model, {
    ...{ max_sequences, max_prefill: 512, slots: 2 * max_sequences, slot_pages, block_steps: 1 },
    ...{ pages: max_sequences * slot_pages, kv: model.compute },
  });
  const batcher = new Batcher(sampler, { max_context }, { sampled: () => {}, failed: () => {} });
  for (let i = 0; i < max_sequences; i++) {
    const tokens = randomTokens(Math.floor(i / decode_group), decode_prompt, model.shape.vocabulary);
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, i] as const, mask: null };
    const sequence = batcher.open({ id: i, adapter, parent: null, tokens });
    const max_tokens = max_context - decode_prompt;
    batcher.generate(sequence, { sequence: i, max_tokens, stop_tokens: [], sampling });
  }
  while (batcher.counters.decode_tokens < max_sequences) await batcher.step();
  await profileStep(bench, model.recorder, {
    name: `decode, ${max_sequences} rows in groups of ${decode_group} after ${decode_prompt} tokens`,
    run: () => batcher.step(),
  });
  sampler.free();
}

/** Times an entire step, then each group of its dispatches separately, and adds a line for each. */
async function profileStep(
  bench: KernelBench,
  recorder: Recorder,
  { name, run }: { name: string; run: () => Promise<unknown> },
): Promise<void> {
  const { report, stopwatch, quick } = bench;
  await run();
  let whole_ms = Infinity;
  for (let i = 0; i < (quick ? 1 : 4); i++) {
    const start = performance.now();
    await run();
    whole_ms = Math.min(whole_ms, performance.now() - start);
  }
  const fence_ms = await stopwatch.fence_ms(quick ? 1 : 5);
  const dispatches = await recordDispatches(recorder, run);
  const groups = groupDispatches(dispatches), timed: { group: Group; ms: number }[] = [];
  const replay = stopwatch.on(recorder);
  for (const group of groups) {
    const record = () => {
      for (const each of group.dispatches) {
        recorder.dispatch(each.kernel, each.params, each.operands as never, each.grid);
      }
    };
    timed.push({ group, ms: 1000 * await replay.seconds(record, group.dispatches.length) });
  }
  const sum_ms = timed.reduce((sum, { ms }) => sum + ms, 0);
  report.add({
    ...{ bench: "profile", name, value: round(whole_ms), unit: "ms", fence_ms: round(fence_ms) },
    ...{ kernels_ms: round(sum_ms), dispatches: dispatches.length },
  });
  for (const { group, ms } of timed.toSorted((a, b) => b.ms - a.ms)) {
    addGroup(bench, name, { ...group, ms, share: ms / sum_ms });
  }
}

function addGroup({ report }: KernelBench, step: string, group: Group & { ms: number; share: number }): void {
  const { name, params, dispatches, ms, share } = group, { rows, columns, depth } = params;
  const weights = name.startsWith("matmul_twin") ? 2 : 1;
  const product = columns && depth
    ? { gflops: round(2 * weights * rows! * columns * depth * dispatches.length / ms / 1e6) }
    : {};
  const sizes = Object.entries(params).map(([key, value]) => `${key} ${value}`).join(" ");
  report.add({
    bench: "profile",
    name: `${step.split(",")[0]}: ${name} ${sizes}`.trim(),
    ...{ value: round(ms), unit: "ms", dispatches: dispatches.length },
    ...{
      microseconds: round(1000 * ms / dispatches.length),
      share_of_step: round(share),
      ...product,
      params,
    },
  });
}
