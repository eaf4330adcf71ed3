import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { countingGpu } from "../kernels/counting_gpu.ts";
import { SUBGROUP_MATRIX } from "../kernels/device.ts";
import { type Kernel, kernelText } from "../kernels/kernel.ts";
import { matmulKernel } from "../kernels/matmul/matmul_kernel.ts";
import { chooseLayout } from "../kernels/matmul/matmul_layout.ts";
import { WEIGHT_TYPE_NAMES } from "../kernels/weights/table.ts";
import {
  type Ceilings,
  ceilingsOf,
  compareGrids,
  compareWithCeilings,
  readCeilings,
  storedStatistics,
} from "./static_gpu/ceilings.ts";
import { formNames, gpuForms } from "./static_gpu/forms.ts";
import type { HostTime } from "./bench/host.ts";
import { filling, productGrids, unfilledDispatches } from "./static_gpu/grids.ts";
import { countedModel, type Launch, samplingLaunches, trainingLaunches } from "./static_gpu/launches.ts";
import { type CompiledFamilies, FAMILIES, missingCompiler, runWithoutGpu } from "./static_gpu/radv.ts";
import { parsePipeline, type Statistics } from "./static_gpu/statistics.ts";
import { runStatic } from "./static_gpu.ts";

const missing = await missingCompiler();

/** As vulkan_shim.c writes it. */
const HEAD = Object.entries({
  ...{ SGPRs: 128, VGPRs: 96, "Spilled SGPRs": 2, "Spilled VGPRs": 23, "Code size": 464, "LDS size": 8192 },
  ...{ "Subgroups per SIMD": 10, Instructions: 83, Latency: 1248, "Inverse Throughput": 78 },
}).map(([name, value]) => `statistic ${name} = ${value}\n`).join("");

/** A line of assembly with its code, as RADV prints it. */
const line = (text: string) => `\t${text.padEnd(60)}; d6100000 02290100\n`;

Deno.test("registers, spills, memory and cycles are read from a pipeline's statistics", () => {
  const { tile, ...numbers } = parsePipeline(HEAD + "BB0:\n" + line("s_endpgm"));
  assert.deepEqual(numbers, {
    ...{ vgprs: 96, sgprs: 128, spills: 25, lds_bytes: 8192, waves: 10, instructions: 83, code_bytes: 464 },
    ...{ latency: 1248, inverse_throughput: 78 },
  });
  assert.equal(tile, null);
  assert.throws(() => parsePipeline(HEAD.replace("Latency", "Duration")), /there is no Latency/);
});

Deno.test("a tile is the block with the most multiply-adds, with the rest of the smallest loop around it", () => {
  const text = HEAD + "BB0:\n" + line("s_mov_b32 s0, s3") + // before all loops
    "BB1:\n" + line("s_nop 0") + line("s_cbranch_scc0 BB7") + // the outer loop
    "BB2:\n" + line("v_add_u32 v0, v1, v2") + line("buffer_load_b128 v[0:3], v0, s[12:15], 0 offen") +
    "BB3:\n" + line("v_fmac_f32 v1, v2, v3") + // a block with one multiply-add
    "BB4:\n" + line("ds_load_b128 v[4:7], v0") +
    line("v_fmac_f32_e32 v1, v2, v3").repeat(30) + line("v_fma_f32 v1, 2.0, v1, 1.0").repeat(10) +
    line("v_dual_fmac_f32 v1, v2, v3 :: v_dual_fmac_f32 v4, v5, v6").repeat(10) +
    line("v_dual_fmac_f32 v1, v2, v3 :: v_dual_mov_b32 v4, v5").repeat(4) +
    line("v_pk_fma_f16 v1, v2, v3, v4").repeat(3) + line("s_cbranch_scc1 BB2") +
    "BB6:\n" + line("s_branch BB1") + "BB7:\n" + line("s_endpgm");
  // 30 + 10 + 2·10 + 4 + 2·3 multiply-adds; a load and a branch besides; 2 instructions in BB2 and 1 in BB3.
  assert.deepEqual(parsePipeline(text).tile, { instructions: 59, fmas: 70, around: 3, around_fmas: 1 });
});

const FORM: Statistics = {
  ...{ vgprs: 96, sgprs: 128, spills: 0, lds_bytes: 8192, waves: 16, instructions: 2880, code_bytes: 13_668 },
  ...{
    latency: 114_852,
    inverse_throughput: 30_147,
    tile: { instructions: 1332, fmas: 1024, around: 424, around_fmas: 0 },
  },
};

function compiled(forms: Record<string, Statistics>): CompiledFamilies {
  const family = { compiler: "Mesa 1.2.3", forms };
  return { navi21: family, gfx1100: family };
}

Deno.test("a value above its ceiling, a form without one and a ceiling without a form are problems", () => {
  const plain = { ...FORM, tile: null };
  const ceilings: Ceilings = ceilingsOf(compiled({ product: FORM, plain }), []);
  const problemsOf = (forms: Record<string, Statistics>) =>
    compareWithCeilings(compiled(forms), ceilings).problems.filter((each) => each.startsWith("navi21"));
  assert.deepEqual(compareWithCeilings(compiled({ product: FORM, plain }), ceilings), {
    problems: [],
    gains: [],
  });
  assert.deepEqual(problemsOf({ product: { ...FORM, spills: 1, vgprs: 97 }, plain }), [
    "navi21: product: vgprs 97 is above 96, spills 1 is above 0",
  ]);
  const wider = { ...FORM, tile: { instructions: 1340, fmas: 1024, around: 424, around_fmas: 0 } };
  assert.deepEqual(problemsOf({ product: wider, plain }), [
    "navi21: product: instructions per FMA 1.3086 is above 1.3008",
  ]);
  assert.deepEqual(problemsOf({ product: plain, plain }), ["navi21: product: it has no tile any more"]);
  assert.deepEqual(problemsOf({ product: FORM, plain, third: plain }), ["navi21: third has no ceiling"]);
  assert.deepEqual(problemsOf({ product: FORM }), ["navi21: there is a ceiling for plain, which is no form"]);
});

Deno.test("a value below its ceiling is a gain", () => {
  const ceilings = ceilingsOf(compiled({ product: FORM }), []);
  const { problems, gains } = compareWithCeilings(
    compiled({ product: { ...FORM, latency: 114_851 } }),
    ceilings,
  );
  assert.deepEqual(problems, []);
  assert.equal(gains[0], "navi21: product: latency 114851 is below 114852");
});

/** Shaders and parts that only software adapters run. */
const SOFTWARE =
  /(_lanes\w*|lora_gradient_single|f16_pairs|single_lane|subgroup_lanes|paged_rows|subgroup_probe)\.wgsl$/;

/** Shaders and parts of products in matrices of subgroups, which only Dawn compiles: the GPU's compiler is asked through Deno. */
const DAWN = /(matmul_(segments_)?matrices\w*|matmul_store_scaled|row_scales|subgroup_matrices)\.wgsl$/;

Deno.test("every shader that a GPU runs through Deno is in a form, and every form has a ceiling", async () => {
  const root = new URL("../kernels/", import.meta.url);
  const texts = [...gpuForms().values()].map((kernel: Kernel) => kernelText(kernel));
  for (const file of readdirSync(root, { recursive: true, encoding: "utf8" })) {
    if (!file.endsWith(".wgsl") || SOFTWARE.test(file) || DAWN.test(file)) continue;
    const header = /^\/\/ [^\n{]+/.exec(Deno.readTextFileSync(new URL(file, root)))![0];
    assert.ok(texts.some((text) => text.includes(header)), `a form with the text of ${file}`);
  }
  const { forms } = await readCeilings();
  assert.deepEqual(Object.keys(forms).sort(), [...gpuForms().keys()].sort());
});

Deno.test("for every number of rows a product has a form", () => {
  const names = formNames(), gpu = countingGpu(assumedGpu());
  const layouts = new Map<string, number>();
  for (let rows = 1; rows <= 8192; rows++) {
    for (const columns of [16, 128, 896, 151_936]) {
      const key = JSON.stringify(chooseLayout(gpu, { rows, columns, depth: 896 }));
      if (!layouts.has(key)) layouts.set(key, rows);
    }
  }
  for (const [key, rows] of layouts) {
    for (const weight of WEIGHT_TYPE_NAMES) {
      for (const orientation of ["nt", "nn"] as const) {
        for (const compute of ["f32", "f16"] as const) {
          const kernel = matmulKernel({ weight, orientation, compute }, JSON.parse(key));
          assert.ok(
            names.has(kernelText(kernel)),
            `${kernel.name} of ${rows} rows: list it in every_kernel_testing.ts`,
          );
        }
      }
    }
  }
});

Deno.test("a product's grid counts its workgroups, and those below the multiprocessors leave some without work", () => {
  const matmul = { name: "matmul_nt_f16", wgsl: "text of the product" } as unknown as Kernel;
  const norm = { name: "rms_norm", wgsl: "text of the norm" } as unknown as Kernel;
  const launch = (kernel: Kernel, columns: number, grid: Launch["grid"]): Launch => ({
    ...{ kernel, grid, operands: {} },
    params: { rows: 64, columns, depth: 80, rank: 16 },
  });
  const launches = [
    launch(matmul, 300, [1, 200, 1]),
    launch(matmul, 100, [1, 14, 2]),
    launch(norm, 100, [1, 1, 1]),
    launch(matmul, 100, [1, 14, 2]),
  ];
  const products = productGrids(launches, new Map([["text of the product", "product"]]));
  // 64 · 96 multiply-adds for each column; two products have 100 of the 500 columns each.
  const expected = [
    { shape: "64 × 100, depth 80 + 16", grid: [1, 14, 2], workgroups: 28, count: 2, share: 0.4 },
    { shape: "64 × 300, depth 80 + 16", grid: [1, 200, 1], workgroups: 200, count: 1, share: 0.6 },
  ];
  assert.deepEqual(products, expected.map((each) => ({ form: "product", ...each })));
  const steps = [{ step: "a step", products }];
  assert.equal(unfilledDispatches(steps[0]!), 2);
  assert.deepEqual([filling(28), filling(330)], ["28 of 132", "2.5 of 3 rounds"]);
  const problemsOf = (unfilled: Record<string, number>) => compareGrids(steps, { unfilled }).problems;
  assert.deepEqual(problemsOf({ "a step": 2 }), []);
  assert.deepEqual(problemsOf({ "a step": 1 }), [
    "a step: 2 dispatches of products leave multiprocessors without work, above 1",
  ]);
  assert.deepEqual(problemsOf({ other: 2 }), [
    "a step has no ceiling",
    "there is a ceiling for other, which is no step",
  ]);
});

Deno.test("the recorded steps are those of the program, and every kernel in them is a form", async () => {
  const names = formNames();
  for (const compute of ["f16", "f32"] as const) {
    const counted = await countedModel("0.5b", compute);
    const { prefill, decode } = await samplingLaunches(counted, { sequences: 64, prompt: 4 });
    const training = await trainingLaunches(counted, 1024);
    // Of a layer: 4 products, what follows each of them, attention. Before them the first norm, and the rows' places.
    const layers = 24 * (4 + 4 + 1) + 2;
    // Tokens are looked up; norm, head, two kernels of sampling, one that advances.
    assert.equal(decode.length, layers + 1 + 5);
    // Of the last layer keys and values of all rows: A, two products, the sums of each, biases, a rotation, the writing. Then
    // the rows that are read, with their places and norm.
    assert.equal(prefill.length, layers + 3 + 10 + 2);
    if (compute === "f16") {
      // With many tokens in the cache a kernel of each layer adds what was computed in parts, and one more reads a shared prompt.
      const decodeOf = async (prompt: number, members: number) =>
        (await samplingLaunches(counted, { sequences: 64, prompt, members })).decode.length;
      assert.deepEqual(
        [await decodeOf(510, 1), await decodeOf(1024, 8)],
        [layers + 1 + 5 + 24, layers + 1 + 5 + 24 + 24],
      );
    }
    const rows = (launches: Launch[]) => new Set(launches.map(({ params }) => params.rows));
    assert.ok(rows(decode).has(64) && rows(prefill).has(256) && rows(training).has(1024));
    const unknown = [...prefill, ...decode, ...training].filter(({ kernel }) =>
      !names.has(kernelText(kernel))
    );
    assert.deepEqual([...new Set(unknown.map(({ kernel }) => kernel.name))], []);
  }
});

Deno.test("matrices of subgroups have as many dispatches, and take all products with operands in f16", async () => {
  const names = async (features: readonly string[]) => {
    const counted = await countedModel("0.5b", "f16", features);
    const { prefill, decode } = await samplingLaunches(counted, { sequences: 64, prompt: 4 });
    const training = await trainingLaunches(counted, 1024);
    const namesOf = (launches: Launch[]) => launches.map(({ kernel: { name } }) => name);
    return { sampled: [...namesOf(prefill), ...namesOf(decode)], trained: namesOf(training) };
  };
  const tiles = await names([]), matrices = await names([SUBGROUP_MATRIX]);
  const isOf = (form: string) => (name: string) => /^matmul_/.test(name) && name.endsWith(`_${form}`);
  assert.deepEqual(
    tiles.sampled.map((name) => isOf("tiles")(name) ? name.replace(/tiles$/, "matrices") : name),
    matrices.sampled,
  );
  assert.ok(matrices.sampled.filter(isOf("matrices")).length > 2 * 4 * 24);
  // Of seven projections a layer and the head, only gradients have scales; of the first layer q, k and v need none.
  const scaled = matrices.trained.filter((name) => name.startsWith("matmul_nn_scaled_"));
  assert.equal(scaled.length, 7 * 24 - 3 + 1);
  assert.equal(matrices.trained.filter((name) => name === "row_scales").length, scaled.length);
  // B alone is multiplied with f32 operands.
  assert.equal(matrices.trained.filter(isOf("tiles")).length, 7 * 24);
});

Deno.test("no ceiling allows a spill, or more than 1.15 instructions for a multiply-add of a large product", async () => {
  const { forms } = await readCeilings(), names = Object.keys(forms);
  const large = names.filter((name) => /^matmul_/.test(name) && name.includes("128 × 128"));
  assert.ok(large.length > 20);
  for (const name of names) {
    for (const family of FAMILIES) {
      const { spills, tile } = storedStatistics({ forms } as Ceilings, name, family)!;
      assert.equal(spills, 0, `${name}, ${family}`);
      if (large.includes(name)) assert.ok(tile!.instructions <= 1.15 * tile!.fmas, `${name}, ${family}`);
    }
  }
});

Deno.test("a machine without a driver or a compiler is told what is missing", async () => {
  const here = fileURLToPath(import.meta.url), missing_here = [here, `${here}/driver.json`];
  const reason = await missingCompiler(missing_here, "no_such_compiler");
  if (Deno.build.os !== "linux" || Deno.build.arch !== "x86_64") {
    return assert.equal(reason, "it needs Linux on x86-64");
  }
  assert.ok(
    reason?.startsWith(`there is no ${here}/driver.json and no C compiler (no_such_compiler): apt-get`),
  );
  assert.equal(await missingCompiler([here], Deno.execPath()), null);
});

const is_skipped = missing !== null && Deno.env.get("REQUIRE_STATIC") !== "1";

Deno.test({
  name: `no GPU form is above its ceilings${is_skipped ? ` (skipped: ${missing})` : ""}`,
  ignore: is_skipped,
  async fn() {
    const lines: string[] = [];
    const status = await runStatic({
      only: "",
      json: null,
      update: false,
      print: (text) => lines.push(text),
    });
    assert.equal(status, 0, lines.filter((text) => text.startsWith("FAILED")).join("\n"));
    const notes = lines.filter((text) => text.startsWith("skipped"));
    for (const note of notes) console.log(note);
  },
});

Deno.test({
  name: `the host records a decode step without a GPU${is_skipped ? ` (skipped: ${missing})` : ""}`,
  ignore: is_skipped,
  async fn() {
    const lines: HostTime[] = JSON.parse(
      await runWithoutGpu("gfx1100", ["bench_host.ts", "--here", "--rows", "8"]),
    );
    const counted = await countedModel("0.5b", "f16");
    const { decode } = await samplingLaunches(counted, { sequences: 8, prompt: 256 });
    assert.deepEqual(lines.map(({ rows, dispatches_per_step }) => [rows, dispatches_per_step]), [
      [8, decode.length],
    ]);
    assert.ok(lines.every(({ microseconds }) => microseconds > 0));
    await assert.rejects(
      () => runWithoutGpu("gfx1100", ["bench_host.ts", "--no-such-option"]),
      /Cannot run bench_host.ts: .*--no-such-option/s,
    );
  },
});
