import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { type Kernel, kernelText } from "../kernel.ts";
import { Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ShapeError } from "../shape.ts";
import { Allocator, type Tensor, view } from "../tensor.ts";
import { filled, gpuTest, run } from "../gpu_testing.ts";
import { attentionBackward, attentionForward } from "./attention.ts";
import { attentionRowAlignment, planKeyParts, ROW_ALIGNMENTS } from "./attention_plan.ts";
import { deviceOptions, type FormOptions } from "../variant.ts";
import { packRows } from "./packed_rows.ts";

/** Runs attention forward and backward over one sequence of `length` rows; returns the bytes of its tensors. */
async function bytesOf(gpu: Gpu, length: number, options: FormOptions) {
  const H = 4, K = 2, D = 8;
  const packed = packRows([{ prompt: length, members: [] }], attentionRowAlignment(gpu, options));
  const N = packed.count;
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  const tensor = (...shape: number[]) => allocator.create("attention", shape);
  const rows = allocator.upload("attention", [N, 4], packed.rows);
  const queries = () => tensor(N, H, D), keys = () => tensor(N, K, D), sums = () => tensor(N, H);
  const tensors = {
    ...{ q: queries(), o: queries(), d_o: queries(), d_q: queries() },
    ...{ k: keys(), v: keys(), d_k: keys(), d_v: keys() },
    ...{ lse: sums(), delta: sums(), rows },
  };
  const bytes = allocator.bytes.attention;
  const own = gpu.device.createBuffer;
  let created = 0;
  gpu.device.createBuffer = (descriptor) => {
    created += descriptor.size;
    return own.call(gpu.device, descriptor);
  };
  try {
    attentionForward(recorder, tensors, { scale: 0.5 }, options);
    attentionBackward(recorder, tensors, { scale: 0.5 }, options);
    recorder.submit();
  } finally {
    gpu.device.createBuffer = own;
  }
  const [lse] = await recorder.submitAndRead([tensors.lse]);
  // Queries of zeros give all keys the same score: log Σ exp 0 = log(number of keys).
  assert.ok(Math.abs(new Float32Array(lse!)[(length - 1) * H]! - Math.log(length)) < 1e-5);
  recorder.destroy();
  allocator.destroy();
  return { bytes, created, expected: 4 * N * (4 * H * D + 4 * K * D + 2 * H + 4), rows: N };
}

gpuTest("the bytes of attention grow linearly with the length", async (gpu) => {
  for (const length of [512, 1024, 2048, 4096, 8192]) {
    const { bytes, created, expected, rows } = await bytesOf(gpu, length, deviceOptions(gpu));
    assert.equal(rows, length);
    assert.equal(bytes, expected, `4 N (4 H D + 4 K D + 2 H + 4) bytes at N = ${length}`);
    assert.equal(created, 0, "the operation makes no buffer of its own");
  }
});

gpuTest(
  "gradients of another number of rows in as many parts cost no new bind group on a GPU",
  (gpu) => {
    const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
    const { createBindGroup } = GPUDevice.prototype;
    let made = 0;
    gpu.device.createBindGroup = (descriptor) => (made++, createBindGroup.call(gpu.device, descriptor));
    const names = ["q", "o", "d_o", "d_q", "k", "v", "d_k", "d_v"] as const, most = 768;
    const tensors = Object.fromEntries(
      names.map((name) => [name, allocator.create("attention", [most, 2, 8])]),
    );
    const sums = allocator.create("attention", [most, 2]);
    const rows = allocator.upload("attention", [most, 4], packRows([{ prompt: most, members: [] }], 1).rows);
    try {
      const counts = [most, 544, 544].map((count) => {
        const before = made, of = (name: typeof names[number]) => view(tensors[name]!, [count, 2, 8]);
        const given = Object.fromEntries(names.map((name) => [name, of(name)])) as Record<
          typeof names[number],
          Tensor
        >;
        const own = {
          lse: view(sums, [count, 2]),
          delta: view(sums, [count, 2]),
          rows: view(rows, [count, 4]),
        };
        assert.equal(planKeyParts({ rows: count, heads: 2, kv_heads: 2, width: 8 }).parts, 3);
        attentionBackward(recorder, { ...given, ...own }, { scale: 1 }, { form: "tiles" });
        return made - before;
      });
      // delta, queries, keys, and their parts.
      assert.deepEqual(counts, [4, 0, 0]);
    } finally {
      recorder.discard();
      recorder.destroy();
      allocator.destroy();
    }
  },
);

gpuTest("attention names the tensor whose shape is wrong", async (gpu) => {
  const given = {
    q: filled(0, 2, 3, 8),
    wide: filled(0, 2, 3, 320),
    odd: filled(0, 2, 3, 36),
    k: filled(0, 2, 1, 8),
    two: filled(0, 2, 2, 8),
    short: filled(0, 1, 1, 8),
    lse: filled(0, 2, 3),
    rows: [[0, 0, 0, 2, 0, 0, 0, 2], [2, 4], "u32"],
    floats: filled(0, 2, 4),
  } as const;
  await run(gpu, given, (recorder, t) => {
    const good = { ...t, v: t.k, o: t.q, d_o: t.q, d_q: t.q, d_k: t.k, d_v: t.k, delta: t.lse };
    const refused = (changed: Partial<typeof good>, message: string) => {
      const error = { name: "ShapeError", message };
      assert.throws(() => attentionForward(recorder, { ...good, ...changed }, { scale: 1 }), error);
      assert.throws(() => attentionBackward(recorder, { ...good, ...changed }, { scale: 1 }), error);
    };
    refused({ k: t.short }, "Cannot use k [1, 1, 8]: expected [2, 1, 8]");
    refused({ v: t.two }, "Cannot use v [2, 2, 8]: expected [2, 1, 8]");
    refused({ o: t.k }, "Cannot use o [2, 1, 8]: expected [2, 3, 8]");
    refused({ lse: t.rows }, "Cannot use lse [2, 4]: expected [2, 3]");
    refused({ rows: t.lse }, "Cannot use rows [2, 3]: expected [2, 4]");
    refused({ rows: t.floats }, "Cannot use rows of f32: expected u32");
    refused({ k: t.two }, "Cannot use query heads 3: expected a multiple of 2");
    refused({ q: t.wide, k: t.wide }, "Cannot use head width 320: expected at most 256");
    refused({ q: t.odd, k: t.odd }, "Cannot use head width 36: expected a multiple of 16");
    assert.throws(() => attentionBackward(recorder, { ...good, d_k: t.q }, { scale: 1 }), ShapeError);
  });
});

Deno.test("the rows of a subgroup or of a tile belong to one segment", () => {
  const gpu = (software: boolean, subgroup_size: number) =>
    ({ subgroup_size, facts: { software } }) as unknown as Gpu;
  const alignments = [gpu(true, 8), gpu(true, 0), gpu(false, 32)].map((g) => attentionRowAlignment(g));
  assert.deepEqual(alignments, [8, 1, 32]);
  const sizes = [0, 1, 2, 4, 8, 16, 32, 64, 128].flatMap((size) => [gpu(true, size), gpu(false, size)]);
  assert.deepEqual(new Set(sizes.map((g) => attentionRowAlignment(g))), new Set(ROW_ALIGNMENTS));
});

Deno.test("rows of a group refer to their prompt; padding refers to itself", () => {
  const packed = packRows([{ prompt: 3, members: [2, 1] }, { prompt: 0, members: [1] }], 4);
  assert.deepEqual(packed.groups, [
    { prompt: { start: 0, length: 3 }, members: [{ start: 4, length: 2 }, { start: 8, length: 1 }] },
    { prompt: { start: 12, length: 0 }, members: [{ start: 12, length: 1 }] },
  ]);
  assert.equal(packed.count, 16);
  const row = (i: number) => [...packed.rows.subarray(4 * i, 4 * i + 4)];
  assert.deepEqual([row(0), row(2), row(3)], [[0, 0, 0, 9], [0, 0, 0, 9], [0, 0, 3, 4]]);
  assert.deepEqual([row(4), row(5), row(6), row(8)], [[0, 3, 4, 6], [0, 3, 4, 6], [0, 0, 6, 7], [
    0,
    3,
    8,
    9,
  ]]);
  assert.deepEqual([row(12), row(15)], [[12, 0, 12, 13], [0, 0, 15, 16]]);
});

/** The texts of the forward pass, and of the backward passes for queries and for keys. */
function textsOf([heads, kv_heads, width]: [number, number, number], options: FormOptions): string[] {
  const texts = new Map<string, string>();
  const recorder = {
    gpu: { facts: { software: true }, subgroup_size: 0 },
    dispatch: (kernel: Kernel) => void texts.set(kernel.name, kernelText(kernel)),
  } as unknown as Recorder;
  const of = (...shape: number[]) => ({ dtype: "f32", shape }) as unknown as Tensor;
  const q = of(1, heads, width), k = of(1, kv_heads, width), sums = of(1, heads);
  const tensors = {
    ...{ q, o: q, d_o: q, d_q: q, k, v: k, d_k: k, d_v: k, lse: sums, delta: sums },
    rows: { ...of(1, 4), dtype: "u32" } as Tensor,
  };
  attentionForward(recorder, tensors, { scale: 1 }, options);
  attentionBackward(recorder, tensors, { scale: 1 }, options);
  return ["forward", "backward_query", "backward_key"].map((pass) => texts.get(`attention_${pass}`)!);
}

/** The number of matches of a pattern in each text. */
const counts = (texts: readonly string[], pattern: RegExp) =>
  texts.map((text) => text.match(pattern)?.length ?? 0);

Deno.test("the texts for lanes are straight-line code with named registers", () => {
  // A lane holds 3 vectors of each head: of both heads of queries, or of 2 keys.
  const texts = textsOf([2, 1, 12], { form: "lanes", lanes: 4 });
  assert.deepEqual(
    counts(texts, /^\s*#|\{[A-Za-z0-9]+\}/gm),
    [0, 0, 0],
    "nothing is left of the template",
  );
  assert.deepEqual(counts(texts, /workgroupBarrier|var<workgroup>|var \w+: array/g), [0, 0, 0]);
  assert.deepEqual(counts(texts, /\bfor \(/g), [1, 1, 2], "blocks are the loop, and heads for keys");
  assert.deepEqual(
    counts(texts, /\+= dot\(/g),
    [2 * 3 * 4, 2 * 2 * 3 * 4, 2 * 2 * 3 * 4],
    "vectors of scores",
  );
  assert.deepEqual(counts(texts, /var (o|d_q|d_k|d_v)\d+_\d+ = /g), [6, 6, 12], "accumulators");
  assert.deepEqual(
    counts(textsOf([2, 1, 12], { form: "lanes", lanes: 1 }), /subgroup[A-Z]/g),
    [0, 0, 0],
    "a lone thread shares nothing",
  );
});

Deno.test("the texts for tiles share staged rows and have named registers for each thread", () => {
  const texts = textsOf([1, 1, 128], { form: "tiles" });
  assert.deepEqual(counts(texts, /^\s*#|\{[A-Za-z0-9]+\}/gm), [0, 0, 0], "nothing is left of the template");
  assert.deepEqual(counts(texts, /var<workgroup> \w+_tile/g), [2, 2, 2]);
  // 32 staged dimensions of 4 by 4 pairs of a row and a key, or twice of 4 by 2.
  assert.deepEqual(counts(texts, /s\d_\d_\d = fma/g), [512, 512, 512], "products");
  // A loop's 4 keys for 4 rows: in 4 vectors; in 2 vectors and 2 halves of a block; of d_k and of d_v.
  assert.deepEqual(
    counts(texts, /o\d_\d_\d = fma\(vec4/g),
    [4 * 4 * 4, 4 * 4 * 2 * 2, 2 * 4 * 4 * 2 * 2],
    "sums",
  );
});

Deno.test("the rows that see a tile of keys are divided by the packing's rows, within the scratch tensor", () => {
  const of = (rows: number, kv_heads = 2, width = 64) => planKeyParts({ rows, heads: 8, kv_heads, width });
  assert.deepEqual(of(256), { parts: 1, part: 256, keys: 256 });
  // 257 rows in 2 parts; a key has 2 parts of 2 gradients of 2 heads of 64 numbers.
  assert.deepEqual(of(257), { parts: 2, part: 160, keys: SCRATCH_BYTES / 2048 });
  assert.deepEqual([of(2048).parts, of(2049).parts, of(8192).parts], [8, 8, 8]);
  const { parts, part, keys } = of(8192, 8, 128);
  assert.equal(part, 1024);
  assert.ok(keys % 32 === 0 && 2 * 4 * parts * keys * 8 * 128 <= SCRATCH_BYTES && keys >= 512);
});
