/**
 * Times attention over packed rows and prints a JSON line for each pass:
 * `deno run -A kernels/attention/attention_bench.ts [repetitions]`.
 */

import { openGpu } from "../device.ts";
import { Recorder } from "../recorder.ts";
import { Allocator, type Tensor } from "../tensor.ts";
import { randomNormal } from "../gpu_testing.ts";
import { attentionBackward, attentionForward } from "./attention.ts";
import { attentionRowAlignment } from "./attention_plan.ts";
import { deviceOptions, type FormOptions } from "../variant.ts";
import { BENCH_CASE } from "./attention_cases.ts";
import { packRows } from "./packed_rows.ts";

const DISPATCHES = 4;
/**
 * Multiplications and additions for each pair of a query and a key, per dimension of a head: q·k and p·v, then five.
 */
const FORWARD_FLOPS = 4, BACKWARD_FLOPS = 10;

/** Seconds of the fastest of several submissions, per dispatch, without the wait of a readback. */
export async function fastest(
  recorder: Recorder,
  record: () => void,
  options: { flag: Tensor; repetitions: number },
) {
  const { flag, repetitions } = options;
  const time = async (dispatches: number) => {
    const start = performance.now();
    for (let i = 0; i < dispatches; i++) record();
    await recorder.submitAndRead([flag]);
    return performance.now() - start;
  };
  await time(1);
  let [idle, busy] = [Infinity, Infinity];
  for (let i = 0; i < repetitions; i++) {
    idle = Math.min(idle, await time(0));
    busy = Math.min(busy, await time(DISPATCHES));
  }
  return (busy - idle) / DISPATCHES / 1000;
}

async function main(): Promise<void> {
  const repetitions = Number(Deno.args[0] ?? 5);
  const gpu = await openGpu({ device: "auto", webgpu: "auto" });
  const { groups, heads: H, kv_heads: K, width: D, name } = BENCH_CASE;
  const options: FormOptions = deviceOptions(gpu);
  const { rows, count: N } = packRows(groups, attentionRowAlignment(gpu, options));
  let pairs = 0;
  for (let i = 0; i < N; i++) pairs += rows[4 * i + 1]! + i - rows[4 * i + 2]! + 1;
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  let seed = 0;
  const random = (heads: number) =>
    allocator.upload("attention", [N, heads, D], Float32Array.from(randomNormal(seed++, N * heads * D)));
  const tensors = {
    ...{ q: random(H), k: random(K), v: random(K), d_o: random(H), o: random(H) },
    ...{ d_q: random(H), d_k: random(K), d_v: random(K) },
    rows: allocator.upload("attention", [N, 4], rows),
    lse: allocator.create("attention", [N, H]),
    delta: allocator.create("attention", [N, H]),
  };
  const scale = 1 / Math.sqrt(D), flag = tensors.lse;
  const passes = [
    ["forward", FORWARD_FLOPS, () => attentionForward(recorder, tensors, { scale })],
    ["backward", BACKWARD_FLOPS, () => attentionBackward(recorder, tensors, { scale })],
  ] as const;
  for (const [pass, flops, record] of passes) {
    const seconds = await fastest(recorder, record, { flag, repetitions });
    const gflops = Number((flops * pairs * H * D / seconds / 1e9).toFixed(1));
    const milliseconds = Number((1000 * seconds).toFixed(2));
    console.log(
      JSON.stringify({
        op: "attention",
        pass,
        shape: name,
        rows: N,
        pairs,
        milliseconds,
        gflops,
        device: gpu.facts.name,
      }),
    );
  }
  recorder.destroy();
  allocator.destroy();
  gpu.device.destroy();
}

if (import.meta.main) await main();
