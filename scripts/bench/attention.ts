/** GFLOP/s of attention: over packed rows, forward and backward, and over the pages of the cache. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { attentionBackward, attentionForward } from "../../kernels/attention/attention.ts";
import { attentionRowAlignment } from "../../kernels/attention/attention_plan.ts";
import { type PackedGroup, packRows } from "../../kernels/attention/packed_rows.ts";
import { attentionPaged } from "../../kernels/kv_pages/attention_paged.ts";
import { decodeCase, layPages, type PagedCase, prefillCase } from "../../kernels/kv_pages/kv_pages_cases.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { inScope, type KernelBench, orSkip, randomTensor } from "./context.ts";
import type { Peaks } from "./peaks.ts";
import { round } from "./report.ts";

/** Multiplications and additions for each pair of a query and a key, per dimension of a head. */
const FORWARD_FLOPS = 4, BACKWARD_FLOPS = 10;

interface Packing {
  name: string;
  groups: PackedGroup[];
}

const PACKINGS: readonly Packing[] = [
  { name: "eight members after one prompt of 320", groups: [{ prompt: 320, members: Array(8).fill(110) }] },
  { name: "one sequence of 1,024", groups: [{ prompt: 0, members: [1024] }] },
];
const GPU_PACKINGS: readonly Packing[] = [
  ...PACKINGS,
  {
    name: "eight members after one prompt of 1,536",
    groups: [{ prompt: 1536, members: Array(8).fill(512) }],
  },
  { name: "two sequences of 2,048", groups: [{ prompt: 0, members: [2048, 2048] }] },
];
const QUICK_PACKINGS: readonly Packing[] = [{
  name: "two sequences of 32",
  groups: [{ prompt: 0, members: [32, 32] }],
}];

const PAGED: readonly PagedCase[] = [
  ...[8, 32, 64].flatMap((rows) => [decodeCase(rows, true), decodeCase(rows, false)]),
  prefillCase(512),
];

export async function benchAttention(bench: KernelBench, peaks: Peaks): Promise<void> {
  const { software, quick } = bench;
  for (const packing of quick ? QUICK_PACKINGS : software ? PACKINGS : GPU_PACKINGS) {
    await orSkip(
      bench,
      ["attention", packing.name],
      () => inScope(bench, (scoped) => benchPacked(scoped, packing, peaks)),
    );
  }
  for (const batch of quick ? [prefillCase(32)] : PAGED) {
    await orSkip(
      bench,
      ["attention", batch.name],
      () => inScope(bench, (scoped) => benchPaged(scoped, batch, peaks)),
    );
  }
}

async function benchPacked(bench: KernelBench, { name, groups }: Packing, peaks: Peaks): Promise<void> {
  const { allocator, recorder, gpu, shape: { heads: H, kv_heads: K, head_width: D } } = bench;
  const { rows, count: N } = packRows(groups, attentionRowAlignment(gpu));
  let pairs = 0;
  for (let i = 0; i < N; i++) pairs += rows[4 * i + 1]! + i - rows[4 * i + 2]! + 1;
  const random = (...shape: number[]) => randomTensor(allocator, shape);
  const tensors = {
    ...{
      q: random(N, H, D),
      k: random(N, K, D),
      v: random(N, K, D),
      o: random(N, H, D),
      d_o: random(N, H, D),
    },
    ...{ d_q: random(N, H, D), d_k: random(N, K, D), d_v: random(N, K, D) },
    ...{ lse: random(N, H), delta: random(N, H), rows: allocator.upload("bench", [N, 4], rows) },
  };
  const scale = 1 / Math.sqrt(D), operations = pairs * H * D;
  const shape = { rows: N, pairs, heads: H, kv_heads: K, head_width: D, groups };
  await measure(
    bench,
    { name: `forward, ${name}`, flops: FORWARD_FLOPS * operations, shape, peaks },
    () => attentionForward(recorder, tensors, { scale }),
  );
  await measure(
    bench,
    { name: `backward, ${name}`, flops: BACKWARD_FLOPS * operations, shape, peaks },
    () => attentionBackward(recorder, tensors, { scale }),
  );
}

async function benchPaged(bench: KernelBench, batch: PagedCase, peaks: Peaks): Promise<void> {
  const { allocator, recorder, software, shape: { heads: H, kv_heads: K, head_width: D } } = bench;
  const { pages, slot_pages, page_table, slots, positions } = layPages(batch);
  const N = slots.length, dtype = software ? "f32" : "f16";
  const random = (shape: number[], type: "f32" | "f16" = "f32") => randomTensor(allocator, shape, type);
  const tensors = {
    q: random([N, H, D]),
    o: random([N, H, D]),
    k_pages: random([pages, K, PAGE_TOKENS, D], dtype),
    v_pages: random([pages, K, PAGE_TOKENS, D], dtype),
    page_table: allocator.upload("bench", [batch.sequences.length, slot_pages], page_table),
    slots: allocator.upload("bench", [N], slots),
    positions: allocator.upload("bench", [N], positions),
    state: random([N, H, 2]),
  };
  const pairs = positions.reduce((sum, position) => sum + position + 1, 0);
  const shape = { rows: N, pairs, heads: H, kv_heads: K, head_width: D, kv: dtype };
  const flops = FORWARD_FLOPS * pairs * H * D;
  await measure(
    bench,
    { name: `paged ${dtype}, ${batch.name}`, flops, shape, peaks },
    () => attentionPaged(recorder, tensors, { scale: 1 / Math.sqrt(D) }),
  );
}

interface Pass {
  name: string;
  flops: number;
  shape: Record<string, unknown>;
  peaks: Peaks;
}

async function measure(bench: KernelBench, pass: Pass, record: (recorder: Recorder) => void): Promise<void> {
  const { recorder, stopwatch, report } = bench, { name, flops, shape, peaks } = pass;
  const seconds = await stopwatch.seconds(() => record(recorder), 4), gflops = flops / seconds / 1e9;
  report.add({
    ...{
      bench: "attention",
      name,
      value: round(gflops),
      unit: "GFLOP/s",
      microseconds: round(1e6 * seconds),
    },
    ...shape,
    share_of_peak: round(gflops / peaks.gflops),
  });
}
