/** The device's peak rates, and the cost of using it. */

import { defineKernel } from "../../kernels/kernel.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { unroll } from "../../kernels/unroll.ts";
import { kernelFamily, wrappedGrid } from "../../kernels/variant.ts";
import copyWgsl from "./copy.wgsl" with { type: "text" };
import { inScope, type KernelBench } from "./context.ts";
import fmaChainsWgsl from "./fma_chains.wgsl" with { type: "text" };
import { round } from "./report.ts";
import touchWgsl from "./touch.wgsl" with { type: "text" };

/** Multiply-adds of a chain in a round. */
const UNROLL = 16;
/** Few chains wait for their own results, many run out of registers; the best one counts. */
const CHAINS = [4, 8, 16];
/** Bytes of the copied array: larger than the last cache. */
const COPY_BYTES = { software: 64 << 20, gpu: 512 << 20, quick: 4 << 20 };
/** The number of dispatches to measure the host's cost of one. */
const HOST_DISPATCHES = 1000;

/** The peak rates in this run, by which other rates are divided. */
export interface Peaks {
  /** An f32 multiply-add counts as two. */
  gflops: number;
  /** Bytes read and written. */
  gigabytes_per_s: number;
}

const fmaChains = kernelFamily((chains: number) =>
  defineKernel({
    name: `fma_chains_${chains}`,
    wgsl: unroll(fmaChainsWgsl, { CHAINS: chains, UNROLL }),
    params: { rounds: "u32", factor: "f32", addend: "f32" },
    inputs: [],
    outputs: ["y"],
  })
);

const copyKernel = defineKernel({
  name: "copy",
  wgsl: copyWgsl,
  params: { items: "u32", threads: "u32" },
  inputs: ["x"],
  outputs: ["y"],
});

const touchKernel = defineKernel({
  name: "touch",
  wgsl: touchWgsl,
  params: { value: "f32" },
  inputs: [],
  outputs: ["y"],
});

/** Measures the peaks and the costs of dispatch and fence. */
export async function measurePeaks(bench: KernelBench): Promise<Peaks> {
  const peaks = { gflops: await inScope(bench, fmaPeak), gigabytes_per_s: await inScope(bench, copyPeak) };
  await inScope(bench, dispatchCosts);
  return peaks;
}

async function fmaPeak({ recorder, allocator, stopwatch, report, software }: KernelBench): Promise<number> {
  const threads = software ? 1 << 12 : 1 << 20, rounds = software ? 64 : 256;
  const y = allocator.create("bench", [threads]);
  const rates = new Map<number, number>();
  for (const chains of CHAINS) {
    const seconds = await stopwatch.seconds(() =>
      recorder.dispatch(fmaChains(chains), { rounds, factor: 0.5, addend: 1 }, { y }, [threads / 64])
    );
    rates.set(chains, 2 * threads * rounds * UNROLL * chains / seconds / 1e9);
  }
  const gflops = Math.max(...rates.values());
  const by_chains = Object.fromEntries([...rates].map(([chains, rate]) => [chains, round(rate)]));
  report.add({ bench: "peak", name: "f32 fma", value: round(gflops), unit: "GFLOP/s", by_chains });
  return gflops;
}

async function copyPeak(bench: KernelBench): Promise<number> {
  const { recorder, allocator, stopwatch, report, software, quick, gpu } = bench;
  const wanted = quick ? COPY_BYTES.quick : software ? COPY_BYTES.software : COPY_BYTES.gpu;
  const bytes = Math.min(wanted, gpu.facts.limits.maxStorageBufferBindingSize!);
  const items = Math.floor(bytes / 16), shape = [items, 4];
  const x = allocator.create("bench", shape), y = allocator.create("bench", shape);
  let best = 0;
  for (const items_each of [1, 8, 64]) {
    const threads = ceilDiv(items, items_each), grid = wrappedGrid(ceilDiv(threads, 64));
    const seconds = await stopwatch.seconds(() =>
      recorder.dispatch(copyKernel, { items, threads }, { x, y }, grid)
    );
    best = Math.max(best, 2 * 16 * items / seconds / 1e9);
  }
  report.add({ bench: "peak", name: "memory copy", value: round(best), unit: "GB/s", bytes: 16 * items });
  return best;
}

async function dispatchCosts({ recorder, allocator, stopwatch, report, quick }: KernelBench): Promise<void> {
  const y = allocator.create("bench", [1]),
    touch = () => recorder.dispatch(touchKernel, { value: 0 }, { y }, [1]);
  const device = await stopwatch.seconds(touch);
  let host = Infinity;
  for (let i = 0; i < (quick ? 1 : 5); i++) {
    const start = performance.now();
    for (let n = 0; n < HOST_DISPATCHES; n++) touch();
    recorder.submit();
    host = Math.min(host, performance.now() - start);
    await stopwatch.fence_ms(1);
  }
  const fence = await stopwatch.fence_ms(quick ? 3 : 15);
  const microseconds = { bench: "peak", unit: "µs" };
  report.add({ ...microseconds, name: "dispatch, host", value: round(1000 * host / HOST_DISPATCHES) });
  report.add({ ...microseconds, name: "dispatch after another, device", value: round(1e6 * device) });
  report.add({ bench: "peak", name: "fence: empty submit to readback", value: round(fence), unit: "ms" });
}
