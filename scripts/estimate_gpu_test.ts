import assert from "node:assert/strict";
import { type Kernel, kernelText } from "../kernels/kernel.ts";
import { matmulKernel } from "../kernels/matmul/matmul_kernel.ts";
import { everyMatrices } from "../kernels/matmul/matmul_layout.ts";
import type { DType, Tensor } from "../kernels/tensor.ts";
import { estimateAll, type EstimateLine, estimateText, ratiosTo, storedText } from "./estimate_gpu.ts";
import { type Ceilings, readCeilings } from "./static_gpu/ceilings.ts";
import {
  estimateStep,
  fillOf,
  GPU_MODELS,
  type GpuModel,
  launchSeconds,
  peakFlops,
  streamedBytes,
  threadsOf,
  tiledSeconds,
} from "./static_gpu/cost_model.ts";
import { matricesLayout, matricesRound, WITH_MATRICES } from "./static_gpu/matrices_model.ts";
import type { Launch } from "./static_gpu/launches.ts";

/** Two multiprocessors with a cycle of a second, so that cycles are seconds. */
const GPU: GpuModel = {
  ...{ name: "GPU", multiprocessors: 2, clock_hz: 1, lanes: 128, matrix_lanes: 256 },
  ...{ bytes_per_second: 100, gap_seconds: 3 },
};

const tensor = (dtype: DType, ...shape: number[]) => ({ dtype, shape, offset_bytes: 0 }) as unknown as Tensor;
const near = (actual: number, expected: number) =>
  assert.ok(Math.abs(actual / expected - 1) < 1e-9, `${actual}`);

Deno.test("a workgroup alone waits for its instructions and memory, and full multiprocessors issue all the time", () => {
  // 4 warps on 4 schedulers: 1,000 cycles of issue in a round. 64 registers of 128 threads: 8 workgroups are resident.
  const work = { threads: 128, rounds: 10, vgprs: 64, tile: { instructions: 1000, around: 0 } };
  // 1,000 instructions that wait for each other by a quarter, and 900 cycles of memory and barriers.
  near(tiledSeconds(GPU, { ...work, groups: 1 }), 10 * (1250 + 900));
  // The second multiprocessor takes the second workgroup.
  near(tiledSeconds(GPU, { ...work, groups: 2 }), 10 * 2150);
  // Two in turn issue 2,000 instructions at 85 %.
  near(tiledSeconds(GPU, { ...work, groups: 4 }), 10 * 2000 / 0.85);
  near(tiledSeconds(GPU, { ...work, groups: 16 }), 10 * 8 * 1000 / 0.85);
  near(tiledSeconds(GPU, { ...work, groups: 17 }), 10 * (8 * 1000 / 0.85 + 2150));
  // Four tenths of the instructions around the tile run.
  near(
    tiledSeconds(GPU, { ...work, groups: 16, tile: { instructions: 1000, around: 500 } }),
    10 * 8 * 1200 / 0.85,
  );
  // Registers for two workgroups only: as many instructions in two rounds of the multiprocessors.
  near(tiledSeconds(GPU, { ...work, groups: 8, vgprs: 256 }), 2 * 10 * 2 * 1000 / 0.85);
});

Deno.test("multiprocessors are filled by workgroups and by their warps", () => {
  assert.equal(fillOf(GPU, 1, 256), 0.5);
  assert.equal(fillOf(GPU, 2, 256), 1);
  // 2 warps on each multiprocessor, where 8 hide latency.
  assert.equal(fillOf(GPU, 2, 64), 0.25);
  assert.equal(fillOf(GPU, 9, 64), 1);
  assert.equal(peakFlops(GPU), 512);
});

Deno.test("threads of a workgroup are read from a kernel's text", () => {
  assert.equal(threadsOf("@compute @workgroup_size(64)"), 64);
  assert.equal(threadsOf("const threads = 32u;\n@compute @workgroup_size(threads, 4)"), 128);
});

/** A kernel of 256 threads. */
function launch(name: string, given: Partial<Launch> & { inputs?: string[]; outputs?: string[] }): Launch {
  const { inputs = [], outputs = [], operands = {}, params = {}, grid = [2, 1, 1] } = given;
  const kernel = { name, inputs, outputs, wgsl: "@workgroup_size(256)" } as unknown as Kernel;
  return { kernel, operands, params, grid };
}

Deno.test("a streaming kernel takes the time of its bytes, and picks rows of a table", () => {
  const x = tensor("f32", 3, 4), table = tensor("f16", 1000, 4);
  const add = launch("add", { inputs: ["x"], outputs: ["y"], operands: { x, y: x } });
  assert.equal(streamedBytes(add), 96);
  near(launchSeconds(GPU, add, { statistics: null, keys: 0 }), 96 / 60);
  const ids = tensor("u32", 3);
  const embedding = launch("embedding_f16", {
    ...{ inputs: ["values", "ids"], outputs: ["x"], operands: { values: table, ids, x } },
  });
  // The ids, x, and as many bytes of the table.
  assert.equal(streamedBytes(embedding), 12 + 48 + 48);
});

Deno.test("attention takes the time of its products, or of the pages that it reads", () => {
  const q = tensor("f32", 8, 2, 16), operands = { q };
  const statistics = {
    ...{ vgprs: 1, spills: 0, lds_bytes: 0, instructions: 0, latency: 0, inverse_throughput: 0 },
    tile: { instructions: 180, fmas: 100, around: 20, around_fmas: 0 },
  };
  // 2 products of 8 rows · 10 keys · 2 heads · 16; half of the issued instructions count, and half of these are products.
  const forward = launch("attention_forward", { operands });
  near(launchSeconds(GPU, forward, { statistics, keys: 10 }), 2 * 2 * 8 * 10 * 2 * 16 / (0.25 * 512));
  const k_pages = tensor("f16", 4, 2, 32, 16), slow = { ...GPU, bytes_per_second: 10 };
  const paged = launch("attention_paged_tiles", { operands: { q, k_pages }, grid: [4, 2, 1] });
  // Keys and values of 4 tiles of rows · 10 tokens · 2 heads · 16 in 2 bytes, at a fifth of the bandwidth.
  near(launchSeconds(slow, paged, { statistics, keys: 10 }), 2 * 4 * 10 * 2 * 16 * 2 / (0.2 * 10));
});

Deno.test("a gradient of a LoRA factor takes the time of its rounds or bytes, and waits for batches of parts", () => {
  const statistics = {
    ...{ vgprs: 64, spills: 0, lds_bytes: 0, instructions: 0, latency: 0, inverse_throughput: 0 },
    tile: { instructions: 1000, fmas: 512, around: 0, around_fmas: 0 },
  };
  const facts = { statistics, keys: 0 }, slow = { ...GPU, bytes_per_second: 1 };
  const gradient = (rank: number, grid: Launch["grid"]) =>
    launch("lora_gradient_tiles", {
      ...{ operands: { p: tensor("f32", 256, 128) }, params: { rank, part_rows: 128 }, grid },
    });
  // A multiprocessor each: 4 rounds of 32 rows, with 1,000 instructions of 8 warps on 4 schedulers.
  near(launchSeconds(GPU, gradient(16, [1, 1, 2]), facts), 4 * (2000 + 900));
  // p, and the sums of two parts.
  near(launchSeconds(slow, gradient(16, [1, 1, 2]), facts), 4 * (256 * 128 + 2 * 128 * 16) / 0.6);
  // Workgroups of other ranks have p from the cache.
  near(launchSeconds(slow, gradient(128, [1, 2, 1]), facts), 4 * (1.5 * 256 * 128 + 128 * 128) / 0.6);
  const reduce = launch("lora_gradient_reduce", { params: { columns: 128, rank: 16, parts: 18 } });
  // 16 parts, and two more; out is read and written.
  near(launchSeconds(GPU, reduce, facts), 2 * 900 + 4 * 128 * 16 * 20 / 60);
});

Deno.test("a step takes its dispatches and a gap for each", () => {
  const x = tensor("f32", 15), operands = { x, y: x };
  const add = launch("add", { inputs: ["x"], outputs: ["y"], operands });
  const step = estimateStep(GPU, [add, add], () => ({ statistics: null, keys: 0 }));
  near(step.seconds, 2 * (120 / 60 + 3));
  assert.deepEqual(step.parts, [["gaps", 6], ["norms and others", 4]]);
  assert.equal(step.dispatches, 2);
});

Deno.test("a round of matrices takes as long as its multiply-adds, its loads or its instructions", () => {
  const layouts = everyMatrices(WITH_MATRICES, "f16"),
    kind = { weight: "f16", orientation: "nt", compute: "f16" } as const;
  for (const layout of layouts) {
    assert.deepEqual(matricesLayout(kernelText(matmulKernel(kind, layout))), layout);
  }
  assert.throws(() => matricesLayout("@workgroup_size(64)"), /its layout is unknown/);
  const large = layouts.find(({ block_rows }) => block_rows === 128)!;
  const roundOf = (matrix_lanes: number) => matricesRound({ lanes: 128, matrix_lanes }, large);
  // 128 · 128 · 16 multiply-adds, 512 in a cycle, in which 4 schedulers issue for 4 warps.
  const slow = roundOf(512);
  assert.deepEqual([slow.steps, slow.threads, slow.instructions], [16, 128, 512]);
  // 128 numbers of a thread for each of 8 ranks.
  near(slow.lowRankRounds(8), 128 * 8 * 1.3 / 512);
  // 24,576 bytes of workgroup memory, and 12,288 of the cache.
  assert.equal(roundOf(8192).instructions, 192);
  // 4 + 4 vectors are staged, 4 + 4 matrices loaded and 16 multiplied; 2 schedulers issue as many in twice the cycles.
  const own = matricesRound({ lanes: 64, matrix_lanes: 8192 }, large);
  assert.equal(own.instructions, 24 + 14 * 8 + 2 * (4 + 4 + 16));
});

Deno.test("estimates are made for four GPUs and marked as such, and fewer instructions are faster", async () => {
  const ceilings = await readCeilings(), options = { models: ["0.5b"] as const, gpu: "", matrices: false };
  const lines = await estimateAll({ ...options, ceilings });
  assert.deepEqual([...new Set(lines.map(({ gpu }) => gpu))], GPU_MODELS.map(({ name }) => name));
  for (const line of lines) {
    assert.match(estimateText(line), /estimate +[\d,.]+ tokens\/s/);
    assert.ok(Number.isFinite(line.tokens_per_second) && line.tokens_per_second > 0, line.step);
  }
  for (const { name: gpu } of GPU_MODELS) {
    const [apart, groups] = ["64 rows", "8 groups of 8"].map((rows) =>
      lines.find((line) => line.gpu === gpu && line.step === `decode, ${rows}, 1152`)!
    );
    assert.ok(groups!.tokens_per_second > apart!.tokens_per_second, `${gpu} reads a shared prompt once`);
    assert.ok(groups!.estimate.parts.some(([kind]) => kind === "attention_paged_shared"));
  }
  const forms = Object.entries(ceilings.forms).map(([name, families]) => {
    const halved = Object.entries(families).map(([family, values]) =>
      [family, values.map((value, i) => i === 6 || i === 8 ? value / 2 : value)] as const
    );
    return [name, Object.fromEntries(halved)] as const;
  });
  const halved: Ceilings = { ...ceilings, forms: Object.fromEntries(forms) };
  const faster = await estimateAll({ ...options, ceilings: halved });
  const rateOf = (of: EstimateLine[]) =>
    of.find(({ step }) => step.startsWith("training"))!.tokens_per_second;
  const ratio = ratiosTo(faster, storedText(lines)), first = faster[0]!;
  near(
    Number(ratio[0]!.toFixed(2)),
    Number((first.tokens_per_second / lines[0]!.tokens_per_second).toFixed(2)),
  );
  assert.deepEqual(ratiosTo([first], storedText(lines.slice(1))), [null]);
  const matrices = await estimateAll({ ...options, matrices: true, ceilings });
  assert.deepEqual([...new Set(matrices.map(({ gpu }) => gpu))], ["H100", "RTX 4090"]);
  for (const { gpu, step, estimate, tokens_per_second } of matrices) {
    const plain = lines.find((line) => line.gpu === gpu && `${line.step}, matrices` === step)!;
    if (gpu === "H100") assert.ok(tokens_per_second > plain.tokens_per_second, step);
    if (step.startsWith("decode")) assert.equal(estimate.dispatches, plain.estimate.dispatches);
  }
  // Products take most of a training step's time.
  assert.ok(rateOf(faster) > 1.4 * rateOf(lines) && rateOf(faster) < 2 * rateOf(lines));
});
