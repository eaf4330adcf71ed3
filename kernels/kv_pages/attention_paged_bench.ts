/**
 * Times attention over pages and prints a JSON line for each batch:
 * `deno run -A kernels/kv_pages/attention_paged_bench.ts [repetitions]`.
 */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { fastest } from "../attention/attention_bench.ts";
import { openGpu } from "../device.ts";
import { Recorder } from "../recorder.ts";
import { Allocator } from "../tensor.ts";
import { randomNormal } from "../gpu_testing.ts";
import { attentionPaged } from "./attention_paged.ts";
import { decodeCase, layPages, type PagedCase, prefillCase } from "./kv_pages_cases.ts";

const BATCHES: readonly PagedCase[] = [
  ...[8, 16, 64].flatMap((rows) => [decodeCase(rows, true), decodeCase(rows, false)]),
  { ...decodeCase(16, true), name: "decode of 16 rows, prompt shared, f16", dtype: "f16" },
  prefillCase(64),
  prefillCase(512),
];

async function main(): Promise<void> {
  const repetitions = Number(Deno.args[0] ?? 5);
  const gpu = await openGpu({ device: "auto", webgpu: "auto" });
  for (const batch of BATCHES) {
    const { heads: H, kv_heads: K, width: D, dtype, sequences } = batch;
    const { pages, slot_pages, page_table, slots, positions } = layPages(batch);
    const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
    const random = (seed: number, ...shape: number[]) => {
      const values = randomNormal(seed, shape.reduce((a, b) => a * b));
      const tensor = allocator.create("paged", shape, shape.length === 4 ? dtype : "f32");
      allocator.write(tensor, tensor.dtype === "f16" ? Float16Array.from(values) : Float32Array.from(values));
      return tensor;
    };
    const N = slots.length;
    const tensors = {
      q: random(1, N, H, D),
      k_pages: random(2, pages, K, PAGE_TOKENS, D),
      v_pages: random(3, pages, K, PAGE_TOKENS, D),
      page_table: allocator.upload("paged", [sequences.length, slot_pages], page_table),
      slots: allocator.upload("paged", [N], slots),
      positions: allocator.upload("paged", [N], positions),
      state: allocator.create("paged", [N, H, 2]),
      o: allocator.create("paged", [N, H, D]),
    };
    const record = () => attentionPaged(recorder, tensors, { scale: 1 / Math.sqrt(D) });
    const seconds = await fastest(recorder, record, { flag: tensors.positions, repetitions });
    const tokens = positions.reduce((sum, position) => sum + position + 1, 0);
    const gflops = Number((4 * tokens * H * D / seconds / 1e9).toFixed(1));
    const milliseconds = Number((1000 * seconds).toFixed(3));
    console.log(
      JSON.stringify({
        op: "attention_paged",
        shape: batch.name,
        rows: N,
        tokens,
        milliseconds,
        gflops,
        device: gpu.facts.name,
      }),
    );
    recorder.destroy();
    allocator.destroy();
  }
  gpu.device.destroy();
}

if (import.meta.main) await main();
