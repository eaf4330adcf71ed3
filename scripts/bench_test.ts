import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { type Gpu, SUBGROUP_MATRIX } from "../kernels/device.ts";
import type { Recorder } from "../kernels/recorder.ts";
import type { Tensor } from "../kernels/tensor.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "../tests/fixture.ts";
import { withFolder } from "../tests/folder.ts";
import { testShape } from "../trainer/model/model_testing.ts";
import { orSkip, productCompute } from "./bench/context.ts";
import { modelMatrices } from "./bench/matmul.ts";
import { groupDispatches } from "./bench/profile.ts";
import { type BenchLine, deviceSlug, readable, Report, storeLines } from "./bench/report.ts";
import { groupSamples, stepSizes } from "./bench/step_sizes.ts";
import { median, Stopwatch } from "./bench/timing.ts";
import { parseParts, PARTS, runBench } from "./bench.ts";
import { compareTargets } from "./bench_targets.ts";

const STRICT = { sanitizeOps: true, sanitizeResources: true };

const FACTS = {
  ...{ device: "A GPU (1.2)", driver: "3.4", backend: "vulkan", webgpu: "deno" as const, software: false },
  ...{ model: "a.gguf", quick: true, commit: "0123abc", deno: "2.9.6" },
};

Deno.test("targets are compared with the best figure of their WebGPU, and met or missed on an H100 or H200 alone", () => {
  const line = (name: string, value: number, webgpu: "deno" | "dawn") => ({
    ...{ ...FACTS, device: "NVIDIA H100", model: "half.gguf", webgpu, bench: "decode", name, value },
    ...{ unit: "tokens/s", time: "", load_average: 0 },
  });
  const lines = [line("64 sequences", 5000, "deno"), line("256 sequences", 9000, "deno")];
  const [train, , deno, dawn] = compareTargets([...lines, line("256 sequences", 17_000, "dawn")]);
  assert.deepEqual([train!.value, train!.is_met], [null, null]);
  assert.deepEqual([deno!.name, deno!.value, deno!.must, deno!.is_met], ["256 sequences", 9000, 8000, true]);
  assert.deepEqual([dawn!.value, dawn!.must, dawn!.is_met], [17_000, 18_000, false]);
  const isMet = (device: string) => {
    const [, , compared] = compareTargets([{ ...line("256 sequences", 9000, "deno"), device }]);
    assert.equal(compared!.device, device);
    return compared!.is_met;
  };
  for (const device of ["NVIDIA H200", "nvidia-h100-80gb-hbm3", "nvidia-h200"]) assert.ok(isMet(device));
  for (const device of ["llvmpipe", "NVIDIA A100", "NVIDIA GH200 480GB"]) assert.equal(isMet(device), null);
});

async function linesOf(path: string): Promise<BenchLine[]> {
  const text = await Deno.readTextFile(path);
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}

/** Checks what all lines have in common. */
function expectWellFormed(line: BenchLine): void {
  const { bench, name, value, unit, time, load_average } = line, text = JSON.stringify(line);
  assert.ok((PARTS as readonly string[]).includes(bench), text);
  assert.ok(name.length > 0, text);
  if (value === null) assert.ok(line.skipped, text);
  else assert.ok(Number.isFinite(value) && value > 0 && unit !== "", text);
  assert.equal(new Date(time).toISOString(), time);
  assert.ok(load_average >= 0);
  for (const field of ["device", "driver", "backend", "model", "commit", "deno"] as const) {
    assert.equal(typeof line[field], "string", text);
  }
  assert.equal(typeof line.software, "boolean");
  for (const [field, number] of Object.entries(line)) {
    if (typeof number === "number") assert.ok(Number.isFinite(number), `${field} of ${text}`);
  }
}

/** Rounded to four digits, so a product of two may be off by a thousandth. */
const near = (a: number, b: number) => Math.abs(a / b - 1) < 2e-3;

gpuTest("a quick bench of the tiny model stores a well-formed line for every part", async () => {
  await withFolder(async (folder) => {
    const printed: string[] = [];
    const model = await fixturePath("models/tiny-agent-f16.gguf");
    const path = await runBench({
      model,
      quick: true,
      out: folder,
      only: PARTS,
      webgpu: "deno",
      print: (text) => printed.push(text),
    });
    const lines = await linesOf(path);
    assert.equal(path, `${folder}/${deviceSlug(lines[0]!.device)}.jsonl`);
    assert.equal(printed.length, lines.length + 1);
    lines.forEach(expectWellFormed);
    const of = (part: string) => lines.filter(({ bench, value }) => bench === part && value !== null);
    for (const part of PARTS) assert.ok(of(part).length > 0, part);
    const peak = of("peak").find(({ unit }) => unit === "GFLOP/s")!.value!;
    for (const line of of("matmul")) {
      const { value, microseconds, rows, columns, depth, share_of_peak } = line as Record<string, number>;
      assert.ok(near(value! * microseconds! * 1e3, 2 * rows! * columns! * depth!), line.name);
      assert.ok(near(share_of_peak!, value! / peak), line.name);
    }
    const lora = of("lora");
    assert.deepEqual(lora.map(({ name }) => name.split(" of q_proj")[0]), [
      ...["x·Aᵀ", "x·Wᵀ + u·Bᵀ", "d_u = d_y·B", "d_x += d_y·W + d_u·A", "gradient of A", "gradient of B"],
    ]);
    lora.forEach((line, i) => {
      const { value, microseconds, rows, rank, in_width, out_width } = line as Record<string, number>;
      const product = in_width! * out_width!, down = rank! * in_width!, up = rank! * out_width!;
      const flops = 2 * rows! * [down, product + up, up, product + down, down, up][i]!;
      assert.ok(near(value! * microseconds! * 1e3, flops), line.name);
    });
    for (const line of of("decode")) {
      assert.ok((line.readbacks_per_step as number) <= 1, "a block of steps is read once");
      assert.ok((line.dispatches_per_step as number) > 4, "every layer dispatches");
    }
    for (const line of of("train").filter(({ unit }) => unit === "tokens/s")) {
      assert.equal(line.readbacks_per_step, 1);
      assert.equal(line.submits_per_step, line.micro_batches);
    }
    const [weights] = of("bytes").filter(({ name }) => name === "weights");
    assert.ok(weights!.value! > 6_000_000, "at least the f16 matrices of 3.1 million parameters");
  });
});

Deno.test({
  name: "a run replaces the lines that it measured and keeps the others",
  ...STRICT,
  fn: () =>
    withFolder(async (folder) => {
      const report = (model: string, ...benches: string[]) => {
        const all = new Report({ ...FACTS, model }, () => {});
        for (const bench of benches) {
          all.add({ bench, name: `${bench} of ${benches.length}`, value: 1, unit: "ms" });
        }
        return all.lines;
      };
      const path = await storeLines(folder, report("a.gguf", "matmul", "train"));
      assert.equal(path, `${folder}/a_gpu_1_2.jsonl`);
      await storeLines(folder, report("b.gguf", "train"));
      await storeLines(folder, report("a.gguf", "train"));
      const kept = (await linesOf(path)).map(({ name, model }) => `${name}, ${model}`);
      assert.deepEqual(kept, ["matmul of 2, a.gguf", "train of 1, b.gguf", "train of 1, a.gguf"]);
      const named = await storeLines(`${folder}/b/own.jsonl`, report("a.gguf", "peak"));
      assert.equal(named, `${folder}/b/own.jsonl`);
      assert.equal((await linesOf(named)).length, 1);
    }),
});

Deno.test("a measurement that does not fit the device becomes a skipped line; other errors are thrown", async () => {
  const report = new Report(FACTS, () => {});
  const full = new ServiceError("out_of_memory", "Cannot allocate 2 bytes: the device binds at most 1");
  assert.equal(await orSkip({ report }, ["matmul", "output"], () => Promise.reject(full)), false);
  assert.equal(await orSkip({ report }, ["matmul", "q_proj"], () => Promise.resolve()), true);
  await assert.rejects(
    orSkip({ report }, ["matmul", "output"], () => Promise.reject(new Error("lost"))),
    /lost/,
  );
  const [line, ...rest] = report.lines;
  assert.deepEqual(rest, []);
  expectWellFormed(line!);
  assert.match(readable(line!), /output +skipped: Cannot allocate 2 bytes/);
});

Deno.test("a call's time is the time beyond the wait, and a failed device has none", async () => {
  let now = 0, recorded = 0, failed = false;
  const recorder = {
    submit: () => {},
    submitAndRead: () => {
      // A wait of 11 ms, 0.25 ms for each call, and one outlier.
      now += 11 + 0.25 * recorded + (now === 0 ? 40 : 0);
      recorded = 0;
      return Promise.resolve([]);
    },
  } as unknown as Recorder;
  const expectSound = () => {
    if (failed) throw new Error("the device failed");
  };
  const options = {
    flag: {} as Tensor,
    effort: { busy_ms: 40, repetitions: 3 },
    expectSound,
    now: () => now,
  };
  const stopwatch = new Stopwatch(recorder, options);
  assert.ok(Math.abs(await stopwatch.seconds(() => recorded++) - 0.25e-3) < 1e-9);
  assert.equal(await stopwatch.fence_ms(3), 11);
  failed = true;
  await assert.rejects(stopwatch.seconds(() => recorded++), /the device failed/);
});

Deno.test("the matrices of a model are named once by shape and counted by layer", () => {
  const shape = testShape(4, {
    ...{ width: 256, heads: 8, kv_heads: 2, head_width: 64, feed_forward: 512, vocabulary: 1024 },
  });
  assert.deepEqual(modelMatrices(shape), [
    { name: "q_proj, gate_proj, up_proj", out_width: 512, in_width: 256, count: 12 },
    { name: "k_proj, v_proj", out_width: 128, in_width: 256, count: 8 },
    { name: "o_proj, down_proj", out_width: 256, in_width: 512, count: 8 },
    { name: "output", out_width: 1024, in_width: 256, count: 1 },
  ]);
});

Deno.test("forward products are measured as the device trains, backward ones in f32 but in matrices of subgroups", () => {
  const of = (software: boolean, ...features: string[]) =>
    (["nt", "nn"] as const).map((orientation) =>
      productCompute({ facts: { software, features } as unknown as Gpu["facts"] }, orientation)
    );
  assert.deepEqual(of(false, "shader-f16"), ["f16", "f32"]);
  assert.deepEqual(of(false, "shader-f16", SUBGROUP_MATRIX), ["f16", "f16"]);
  assert.deepEqual(of(false), ["f32", "f32"]);
  assert.deepEqual(of(true, "shader-f16"), ["f32", "f32"]);
});

Deno.test("a step's dispatches are grouped by kernel and shape, with the one that advances rows last", () => {
  const dispatch = (name: string, params: Record<string, number>) =>
    ({ kernel: { name }, params, operands: {}, grid: [1] }) as unknown as Parameters<
      typeof groupDispatches
    >[0][0];
  const groups = groupDispatches([
    dispatch("advance", { rows: 8, step: 0 }),
    dispatch("matmul", { rows: 8, columns: 4, depth: 4, u_column: 0 }),
    dispatch("matmul", { rows: 8, columns: 8, depth: 4, u_column: 0 }),
    dispatch("matmul", { rows: 8, columns: 4, depth: 4, u_column: 16 }),
  ]);
  assert.deepEqual(groups.map(({ name, params, dispatches }) => [name, params.columns, dispatches.length]), [
    ["matmul", 4, 2],
    ["matmul", 8, 1],
    ["advance", undefined, 1],
  ]);
});

Deno.test("a micro-batch shrinks to no less than a member of a group", () => {
  for (const software of [true, false]) {
    for (
      const { micro_batch_tokens, group: { prompt, completion } } of stepSizes({ software, quick: false })
    ) {
      assert.ok(micro_batch_tokens >= prompt + completion);
    }
  }
});

Deno.test("the two forms of a group have the same tokens and differ in what is shared", () => {
  const sizes = { members: 3, prompt: 6, completion: 4 };
  const [shared, apart] = [true, false].map((shared) => groupSamples(sizes, 50, { shared }));
  assert.deepEqual(shared!.map(({ tokens }) => tokens), apart!.map(({ tokens }) => tokens));
  assert.deepEqual(shared!.map(({ prefix_length }) => prefix_length), [6, 6, 6]);
  assert.deepEqual(apart!.map(({ prefix_length }) => prefix_length), [0, 0, 0]);
  for (const { tokens, loss_mask } of shared!) {
    assert.deepEqual(tokens.slice(0, 6), shared![0]!.tokens.slice(0, 6));
    assert.deepEqual([...loss_mask], [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    assert.ok(tokens.every((token) => token < 50));
  }
});

Deno.test("PyTorch's part reads numbers and lists of the shape that a line of the bench has", async () => {
  const text = await Deno.readTextFile(new URL("bench_pytorch.py", import.meta.url)),
    shape = testShape(1, {});
  const reads = [...text.matchAll(/(\bin )?\b(?:shape|s)((?:\["\w+"\]|\[0\])+)/g)];
  assert.ok(reads.length > 10);
  for (const [read, is_list, path] of reads) {
    const value = [...path!.matchAll(/\w+/g)].reduce<unknown>((at, [key]) => {
      return (at as Record<string, unknown> | undefined)?.[key];
    }, shape);
    assert.ok(is_list ? Array.isArray(value) : typeof value === "number", `${read} is ${typeof value}`);
  }
});

Deno.test("the parts to measure are checked by name", () => {
  assert.deepEqual(parseParts("matmul, decode"), ["matmul", "decode"]);
  assert.throws(() => parseParts("matmul,speed"), /Cannot measure speed: there are peak, matmul/);
});

Deno.test("the median of an even number of values is the mean of two", () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([4, 1, 3, 2]), 2.5);
});
