/**
 * The host's time for a dispatch of decode steps: what this program, V8, Deno and the driver take to record and submit it. A
 * model of 0.5 billion parameters without values samples blocks whose tokens are not read.
 */

import { assert } from "../../core/errors.ts";
import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import type { Gpu } from "../../kernels/device.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { type Tensor, tensorBytes } from "../../kernels/tensor.ts";
import { prefillTokens } from "../../trainer/engine/engine_parts.ts";
import type { DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { Batcher } from "../../trainer/sampler/batcher.ts";
import { Sampler } from "../../trainer/sampler/sampler.ts";
import { headerModel } from "../static_gpu/launches.ts";
import { round } from "./report.ts";

/** Tokens in the cache when a sequence starts to draw, the most that it draws, and those of a block. */
const PROMPT = 256, DRAWN = 768, BLOCK_STEPS = 16;
/** Blocks before those that count, in which V8 compiles this program's code, and those that count. */
const WARM_BLOCKS = 24, BLOCKS = 23;

/** The time for a dispatch in decode steps of so many sequences. */
export interface HostTime {
  rows: number;
  dispatches_per_step: number;
  /** The fastest block, and the median, when V8 has compiled this program's code. */
  microseconds: number;
  median_microseconds: number;
  /** Of the first block after the step with the prompts. */
  first_microseconds: number;
}

/** Reads nothing back: every token is 0. */
class SubmittingRecorder extends Recorder {
  override submitAndRead(tensors: readonly Tensor[]): Promise<ArrayBuffer[]> {
    this.submit();
    return Promise.resolve(tensors.map(({ shape, dtype }) => new ArrayBuffer(tensorBytes(shape, dtype))));
  }
}

/** A device, and whether it runs what it is given. */
export interface HostDevice {
  gpu: Gpu;
  runs_commands: boolean;
}

/**
 * Measures steps of each number of sequences. A device that runs commands has finished a block before the next one is
 * measured: else the driver's queue would grow, and the host would wait for it.
 */
export async function measureHostTimes(on: HostDevice, all_rows: readonly number[]): Promise<HostTime[]> {
  const times: HostTime[] = [];
  for (const rows of all_rows) times.push(await measureRows(on, rows));
  return times;
}

async function measureRows({ gpu, runs_commands }: HostDevice, rows: number): Promise<HostTime> {
  const { model: counted, allocator, adapter } = await headerModel(gpu, "0.5b", "f16");
  const recorder = new SubmittingRecorder(gpu, allocator), model = { ...counted, recorder };
  const slot_pages = ceilDiv(PROMPT + DRAWN, PAGE_TOKENS);
  const sampler = new Sampler(allocator, model, {
    ...{ max_sequences: rows, max_prefill: prefillTokens(model), slots: rows, slot_pages },
    ...{ pages: rows * slot_pages, kv: "f16", block_steps: BLOCK_STEPS },
  });
  sampler.reserve(adapter.layout.padded_rank);
  const batcher = openSequences(sampler, adapter, rows);
  // Nothing ends on a device that drops its commands.
  const finish = async () => runs_commands && await recorder.submitAndWait();
  while (batcher.counters.decode_steps === 0) {
    await batcher.step();
    await finish();
  }
  const blocks: { dispatches: number; microseconds: number }[] = [];
  while (blocks.length < WARM_BLOCKS + BLOCKS) {
    const before = recorder.counters.dispatches, start = performance.now();
    if (!await batcher.step()) break;
    const dispatches = recorder.counters.dispatches - before;
    blocks.push({ dispatches, microseconds: 1000 * (performance.now() - start) / dispatches });
    await finish();
  }
  await finish();
  sampler.free();
  allocator.destroy();
  const last = blocks.slice(WARM_BLOCKS).map(({ microseconds }) => microseconds).toSorted((a, b) => a - b);
  return {
    rows,
    dispatches_per_step: blocks[0]!.dispatches / BLOCK_STEPS,
    microseconds: round(last[0]!),
    median_microseconds: round(last[last.length >> 1]!),
    first_microseconds: round(blocks[0]!.microseconds),
  };
}

/** Sequences without a common page, which draw from a prompt each. */
function openSequences(sampler: Sampler, adapter: DeviceAdapter, rows: number): Batcher {
  const batcher = new Batcher(sampler, { max_context: PROMPT + DRAWN }, {
    sampled: () => {},
    failed: (_, { message }) => assert(false, message),
  });
  for (let id = 0; id < rows; id++) {
    const tokens = Array.from({ length: PROMPT }, (_, position) => id + position);
    const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, id] as const, mask: null };
    const sequence = batcher.open({ id, adapter, parent: null, tokens });
    batcher.generate(sequence, { sequence: id, max_tokens: DRAWN, stop_tokens: [], sampling });
  }
  return batcher;
}
