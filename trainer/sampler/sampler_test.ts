import { deepEqual, equal, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { Grid, Kernel, Operands, Params } from "../../kernels/kernel.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { deviceForm, deviceOptions } from "../../kernels/variant.ts";
import { openGguf } from "../formats/gguf.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../model/device_adapter.ts";
import { loadModel } from "../model/load_model.ts";
import { Batcher } from "./batcher.ts";
import { Sampler, type SamplerOptions } from "./sampler.ts";
import type { Sequence } from "./sequence.ts";

/** The first token comes in a step with the prompt, the others in three blocks. */
const STEPS = 4, TOKENS = 1 + 3 * STEPS, MORE_TOKENS = STEPS;

const PROMPT = Array.from({ length: 33 }, (_, i) => (7 * i + 5) % 256);

/** The names of kernels that a body dispatches with their rows, and how many dispatches it submits. */
async function dispatchesOf(recorder: Recorder, body: () => Promise<unknown>) {
  const names: string[] = [], rows: [name: string, rows: number][] = [];
  const { dispatch } = recorder, before = recorder.counters.dispatches;
  recorder.dispatch = <K extends Kernel>(...given: [K, Params<K>, Operands<K>, Grid]) => {
    const [{ name }, params] = given;
    names.push(name);
    if ("rows" in params) rows.push([name, params.rows as number]);
    dispatch.apply(recorder, given);
  };
  try {
    await body();
  } finally {
    recorder.dispatch = dispatch;
  }
  return { names, rows, submitted: recorder.counters.dispatches - before };
}

/** By phase, the ranks of the adapters that sequences run with at the same time, 0 for none; null: all memory is released. */
const PHASES: readonly (readonly number[] | null)[] = [[0], [16, 16], [4], [0], null, [0], [0]];

/** Dispatches of a block. */
interface BlockCounts {
  recorded: number;
  submitted: number;
}

/** Samples in blocks of so many steps. @param repeats Whether what was recorded may be recorded again in later steps. */
async function sample(gpu: Gpu, block_steps: number, { repeats }: { repeats: boolean }) {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const { model, allocator } = await loadModel(gpu, file, { compute: "f32", max_context: 64 });
  const adapters = new Map([4, 16].map((rank) => {
    const layout = adapterLayout(model.shape, { rank, alpha: 16, targets: ["q_proj", "v_proj", "up_proj"] });
    const adapter = new DeviceAdapter(allocator, layout);
    // B of a new adapter is zero.
    adapter.write(initialParameters(layout, rank).map((value) => value + 0.01));
    return [rank, adapter];
  }));
  const sampler = new Sampler(allocator, model, {
    ...{ max_sequences: 2, max_prefill: 128, slots: 4, slot_pages: 2, pages: 8, kv: "f32", block_steps },
  });
  const fail = (_: unknown, error: { message: string }) => {
    throw new Error(error.message);
  };
  const batcher = new Batcher(sampler, { max_context: 64 }, { sampled: () => {}, failed: fail });
  const phases: {
    sampled: number[][];
    passes: number;
    norms: number;
    blocks: BlockCounts[];
    attending: number[];
  }[] = [];
  for (const ranks of PHASES) {
    if (!ranks) {
      batcher.releaseMemory();
      continue;
    }
    const sequences = ranks.map((rank, id) => {
      const adapter = adapters.get(rank) ?? null, tokens = PROMPT.map((token) => token + id);
      return batcher.open({ id, adapter, parent: null, tokens });
    });
    const generate = (max_tokens: number) =>
      sequences.forEach((sequence, id) => {
        const sampling = {
          ...{ temperature: 1, top_p: 1, top_k: 0, rng_key: [ranks[id]!, id] as const, mask: null },
        };
        batcher.generate(sequence, { sequence: id, max_tokens, stop_tokens: [], sampling });
      });
    generate(TOKENS);
    // The first step runs the prompts, and samples.
    const first = await dispatchesOf(model.recorder, () => batcher.step());
    // On a software adapter each attention has a second dispatch for rows beside others of another slot.
    const attending = first.rows.flatMap(([name, rows]) =>
      name.startsWith("attention_paged") && !name.endsWith("own_lanes") ? rows : []
    );
    const blocks: BlockCounts[] = [];
    let passes = -1, norms = 0;
    for (let step = first;; step = await dispatchesOf(model.recorder, () => batcher.step())) {
      passes += step.names.filter((name) => name.startsWith("embedding")).length;
      norms += step.rows.filter(([name, rows]) => name.startsWith("rms_norm") && rows < PROMPT.length).length;
      blocks.push({ recorded: step.names.length, submitted: step.submitted });
      if (!sequences.some(({ generation }) => generation)) break;
      if (!repeats) model.recorder.forgetAll();
    }
    // The same rows as before, which generate anew.
    generate(MORE_TOKENS);
    for (let i = 0; sequences.some(({ generation }) => generation); i++) {
      ok(i < 10 * MORE_TOKENS, "rows that generate anew sample");
      await batcher.step();
    }
    const sampled = sequences.map(({ tokens }) => tokens.slice(PROMPT.length));
    phases.push({ sampled, passes, norms, blocks, attending });
    for (const sequence of sequences) await batcher.close(sequence);
  }
  model.recorder.destroy();
  allocator.destroy();
  return phases;
}

gpuTest("steps and blocks repeat those before, and sample what those sample that do not", async (gpu) => {
  const single = await sample(gpu, 1, { repeats: false }),
    together = await sample(gpu, STEPS, { repeats: true });
  deepEqual(together.map(({ sampled }) => sampled), single.map(({ sampled }) => sampled));
  ok(together.every(({ sampled }) => sampled.every(({ length }) => length === TOKENS + MORE_TOKENS)));
  for (const { passes, blocks } of single) {
    deepEqual(passes, TOKENS - 1, "the last token does not run");
    ok(blocks.every(({ recorded, submitted }) => recorded === submitted));
  }
  const passes = together.map(({ passes }) => passes);
  // Other adapters, rows and buffers need another pass.
  deepEqual(passes, deviceForm(gpu) === "tiles" ? Array(6).fill(3) : [1, 1, 1, 1, 1, 0]);
  for (const [i, ranks] of PHASES.filter((ranks) => ranks !== null).entries()) {
    const given = PROMPT.length * ranks.length;
    // One row with lanes of its own has none beside it.
    const { form, lanes } = deviceOptions(gpu);
    const is_alone = form === "lanes" && lanes > 1 && ranks.length === 1;
    const last = is_alone ? [] : [ranks.length];
    if (is_alone) deepEqual(together[i]!.norms, 0, "products of one row normalise it");
    const layers = [given, given, given, ...last], { attending } = together[i]!;
    deepEqual(attending.slice(0, layers.length), layers, "the last layer has rows that are read");
  }
  for (const { blocks } of together) {
    equal(blocks.length, 4);
    const [first, second, third, last] = blocks as [BlockCounts, BlockCounts, BlockCounts, BlockCounts];
    const repeated = ({ recorded, submitted }: BlockCounts) => submitted - recorded;
    ok(repeated(second) > 3 * 20, "a pass of more than 20 dispatches is repeated for three of four tokens");
    if (deviceForm(gpu) === "tiles") {
      // In each step the next block is started.
      deepEqual([repeated(first), repeated(third), last.submitted], [repeated(second), repeated(second), 0]);
      continue;
    }
    equal(repeated(first), 0);
    const again = { recorded: 0, submitted: second.submitted };
    deepEqual([third, last], [again, again], "rows that go on repeat the block before");
  }
});

/** The tiny agent with a sampler for up to 128 tokens of each sequence. */
async function smallSampler(
  gpu: Gpu,
  sizes: Pick<SamplerOptions, "max_sequences" | "max_prefill" | "slots" | "pages">,
) {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const { model, allocator } = await loadModel(gpu, file, { compute: "f32", max_context: 128 });
  const rest = { slot_pages: 4, kv: "f32", block_steps: STEPS } as const;
  return { model, allocator, sampler: new Sampler(allocator, model, { ...sizes, ...rest }) };
}

/** Given tokens that come while another sequence samples: in few rows that nobody reads, and in many. */
const LATER_TOKENS = [3, 7, 40];

gpuTest("given tokens in a pass with sampled ones change no bit of either", async (gpu) => {
  await mixPasses(gpu);
  // The forms of GPUs, with blocks that run ahead.
  const facts = { ...gpu.facts, webgpu: "dawn", software: false } as const;
  if (gpu.facts.software) await mixPasses({ ...gpu, facts });
});

async function mixPasses(gpu: Gpu): Promise<void> {
  const { model, allocator, sampler } = await smallSampler(gpu, {
    ...{ max_sequences: 4, max_prefill: 64, slots: 8, pages: 24 },
  });
  const logprobs = new Map<Sequence, number[]>();
  const batcher = new Batcher(sampler, { max_context: 128 }, {
    sampled: (sequence, block) => logprobs.get(sequence)!.push(...block.logprobs),
    failed: () => {},
  });
  const prompts = [33, ...LATER_TOKENS].map((length, id) => PROMPT.concat(PROMPT).slice(id, id + length));
  const start = (id: number, max_tokens: number) => {
    const sequence = batcher.open({ id, adapter: null, parent: null, tokens: prompts[id]! });
    logprobs.set(sequence, []);
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [5, id] as const, mask: null };
    batcher.generate(sequence, { sequence: id, max_tokens, stop_tokens: [], sampling });
    return sequence;
  };
  const finish = async (sequences: Sequence[]) => {
    while (await batcher.step());
    for (const sequence of sequences) await batcher.close(sequence);
    return sequences.map((sequence) => [sequence.tokens, logprobs.get(sequence)!]);
  };
  const alone: number[][][] = [];
  for (const id of prompts.keys()) alone.push(...await finish([start(id, id === 0 ? 40 : 6)]));
  const sequences = [start(0, 40)];
  await batcher.step();
  for (const [i, length] of LATER_TOKENS.entries()) {
    sequences.push(start(1 + i, 6));
    // Nobody samples from this one: the others go on from their states on the device.
    const silent = batcher.open({ id: 9, adapter: null, parent: null, tokens: [1, 2] });
    // The next block may run already.
    await batcher.pause();
    const sampling = sequences.filter(({ generation, hidden }) => generation && hidden === null).length - 1;
    const { rows } = await dispatchesOf(model.recorder, () => batcher.step());
    ok(rows.some(([, rows]) => rows === length + 2 + sampling), `${length} given tokens share a pass`);
    const other = batcher.open({ id: 10, adapter: null, parent: null, tokens: [3, 4, 5] });
    await batcher.step();
    for (const sequence of [silent, other]) await batcher.close(sequence);
  }
  deepEqual(await finish(sequences), alone);
  model.recorder.destroy();
  allocator.destroy();
}

gpuTest("a copy of a page is made once, although later blocks repeat the one after it", async (gpu) => {
  const { model, allocator, sampler } = await smallSampler(gpu, {
    ...{ max_sequences: 1, max_prefill: 128, slots: 4, pages: 8 },
  });
  const batcher = new Batcher(sampler, { max_context: 128 }, { sampled: () => {}, failed: () => {} });
  // A token more than a page. Without tokens of its own a child takes the parent's last page in part, before its first block.
  const open = (id: number, parent: Sequence | null) =>
    batcher.open({ id, adapter: null, parent, tokens: parent ? [] : PROMPT });
  const generate = async (sequence: Sequence, each: () => Promise<void>) => {
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [3, 4] as const, mask: null };
    batcher.generate(sequence, { sequence: sequence.id, max_tokens: 60, stop_tokens: [], sampling });
    for (let i = 0; sequence.generation; i++) {
      ok(i < 60, "the sequence samples");
      await batcher.step();
      await each();
    }
    return sequence.tokens;
  };
  const alone = open(0, null), expected = await generate(alone, () => Promise.resolve());
  await batcher.close(alone);
  const parent = open(1, null), child = open(2, parent);
  // The parent's pages are free once it is closed, and the child takes them for what it samples.
  const sampled = await generate(child, async () => {
    if (child.tokens.length > PROMPT.length && !parent.is_closed) await batcher.close(parent);
  });
  model.recorder.destroy();
  allocator.destroy();
  ok(parent.is_closed);
  deepEqual(sampled, expected);
});
