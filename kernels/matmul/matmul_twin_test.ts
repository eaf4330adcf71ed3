import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import type { Gpu } from "../device.ts";
import { gatedActivation } from "../gated_activation/gated_activation.ts";
import {
  expectClose,
  filled,
  gpuTest,
  lacksF16,
  randomNormal,
  randomWeight,
  run,
  uploadWeight,
} from "../gpu_testing.ts";
import { ShapeError } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { createWeight, PART_ROWS, type Weight } from "../weights/weight.ts";
import type { WeightTypeName } from "../weights/table.ts";
import { type LoraTerm, matmul } from "./matmul.ts";
import { everyLayout, type MatmulLayout } from "./matmul_layout.ts";
import { EXACT } from "./matmul_testing.ts";
import { fitsTwin, matmulTwin, type TwinWeights } from "./matmul_twin.ts";

const SINGLE_LANE: MatmulLayout = { form: "lanes", lanes: 1, owns: "rows", tile_rows: 8, tile_vectors: 4 };

/** The forms of a product with two weights that a device can run. */
const layouts = (gpu: Gpu) => [
  ...gpu.facts.software ? everyLayout(gpu, { reads_pairs: true }) : [],
  SINGLE_LANE,
];

/** Rows and columns that fill no tile. */
const N = 5, C = 36, STRIDE = 32;

/** What the products of a case have in common. */
interface Case {
  type: WeightTypeName;
  depth: number;
  /** What the low-rank terms get, if there are any. */
  lora: "u" | "a" | null;
  rank: number;
  compute: "f32" | "f16";
  layout: MatmulLayout;
}

/** Runs `matmul` for both weights, the gate, and both kinds of twins. */
async function runCase(
  gpu: Gpu,
  { type, depth, lora, rank, compute, layout }: Case,
  activation: "silu" | "gelu_tanh",
) {
  const [a, b] = [1, 2].map((seed) => randomWeight(seed, type, C * depth));
  return await run(gpu, {
    x: [randomNormal(3, N * depth), [N, depth]],
    u: filled(NaN, N, STRIDE),
    a: [randomNormal(4, STRIDE * depth), [STRIDE, depth]],
    m: [randomNormal(5, C * rank), [C, rank]],
    n: [randomNormal(6, C * rank), [C, rank]],
    ...{ y0: filled(NaN, N, C), y1: filled(NaN, N, C), h: filled(NaN, N, C) },
    ...{ twin0: filled(NaN, N, C), twin1: filled(NaN, N, C), gated: filled(NaN, N, C) },
  }, (recorder, t, allocator) => {
    const weights = [a!, b!].map(({ bytes }) => uploadWeight(allocator, { type, shape: [C, depth] }, bytes));
    const [first, second] = weights as [Weight, Weight],
      options = { compute, layout } as const,
      { x, u } = t;
    const term = { u, column: 4, matrix: t.m, scale: 0.5 },
      other = { ...term, column: 4 + rank, matrix: t.n };
    const A: Weight = { type: "f32", values: t.a, shape: [STRIDE, depth] };
    matmul(recorder, "nt", { x, weight: A, y: u }, { compute, layout: SINGLE_LANE });
    matmul(recorder, "nt", { x, weight: first, y: t.y0, lora: lora ? term : undefined }, options);
    matmul(recorder, "nt", { x, weight: second, y: t.y1, lora: lora ? other : undefined }, options);
    gatedActivation(recorder, { gate: t.y0, up: t.y1, h: t.h }, activation);
    const own = lora === "a" ? { u: t.a, u_is_a: true } : {};
    const terms = lora ? [{ ...term, ...own }, { ...other, ...own }] as const : undefined;
    const twin = { x, weights: [first, second] as const, terms };
    matmulTwin(recorder, { ...twin, out: [t.twin0, t.twin1] }, options);
    matmulTwin(recorder, { ...twin, out: { h: t.gated, activation } }, options);
  });
}

const TWIN_CASES: readonly Omit<Case, "layout">[] = [
  { type: "f32", depth: 64, lora: null, rank: 4, compute: "f32" },
  // 20: a rest of the depth after its pairs; 12: lanes do not share the rank evenly.
  { type: "f16", depth: 20, lora: "u", rank: 12, compute: "f16" },
  { type: "f16", depth: 20, lora: "a", rank: 12, compute: "f16" },
  { type: "q4_k", depth: 256, lora: "a", rank: 4, compute: "f32" },
];

for (const [i, given] of TWIN_CASES.entries()) {
  const { type, compute, lora } = given;
  gpuTest(
    `two weights have the bits of two products, and of their gated activation: ${type}, ${compute}, lora ${lora}`,
    async (gpu) => {
      for (const layout of layouts(gpu)) {
        // Few rows read no quantised weights.
        if (layout.form === "lanes" && layout.owns === "columns" && type === "q4_k") continue;
        const out = await runCase(gpu, { ...given, layout }, i === 1 ? "gelu_tanh" : "silu");
        const name = JSON.stringify(layout);
        expectClose(out.twin0, out.y0, EXACT, `first, ${name}`);
        expectClose(out.twin1, out.y1, EXACT, `second, ${name}`);
        expectClose(out.gated, out.h, EXACT, `gated, ${name}`);
      }
    },
    compute === "f16" ? lacksF16 : undefined,
  );
}

/** A weight without a device. */
function weightOf(type: WeightTypeName, columns: number, depth: number, limit_bytes = Infinity): Weight {
  const create = (_: string, shape: number[]) => ({ shape }) as unknown as Tensor;
  return createWeight({ create, limit_bytes } as never, "test", { type, shape: [columns, depth] });
}

Deno.test("two weights go together on a software adapter, if they and their terms differ in numbers alone", () => {
  const card = assumedGpu(), facts = { ...card.facts, software: true };
  const fits = (weights: TwinWeights["weights"], ...terms: (LoraTerm | null)[]) =>
    fitsTwin({ facts }, { weights, terms, outputs: 1 });
  const w = weightOf("f16", 64, 32), u = { buffer: {}, offset_bytes: 0, shape: [2, 16] } as unknown as Tensor;
  const term: LoraTerm = { u, column: 0, matrix: { shape: [64, 8] } as unknown as Tensor, scale: 2 };
  const next = { ...term, column: 8 };
  assert.ok(fits([w, w]));
  assert.ok(fits([w, w], null, null));
  assert.ok(fits([w, w], term, next));
  assert.ok(!fitsTwin(card, { weights: [w, w], terms: [], outputs: 1 }));
  for (const other of [weightOf("f32", 64, 32), weightOf("f16", 128, 32), weightOf("f16", 64, 64)]) {
    assert.ok(!fits([w, other]));
  }
  const parts = weightOf("f16", 2 * PART_ROWS, 32, 2 * 32 * PART_ROWS);
  assert.ok(!fits([parts, parts]));
  const narrow = { shape: [64, 4] } as unknown as Tensor, elsewhere = { ...u, offset_bytes: 256 };
  const others = [null, term, { ...next, scale: 1 }, { ...next, u_is_a: true }, { ...next, matrix: narrow }, {
    ...next,
    u: elsewhere,
  }];
  for (const other of others) assert.ok(!fits([w, w], term, other));
  const twins = () => matmulTwin({} as never, { x: u, weights: [w, parts], out: [u, u] }, { compute: "f32" });
  assert.throws(twins, ShapeError);
});

Deno.test("two weights go together only while the device binds all that they need", () => {
  const { facts } = assumedGpu(), w = weightOf("q4_k", 64, 256);
  const fits = (maxStorageBuffersPerShaderStage: number, outputs: 1 | 2) => {
    const limited = {
      ...facts,
      software: true,
      limits: { ...facts.limits, maxStorageBuffersPerShaderStage },
    };
    return fitsTwin({ facts: limited }, { weights: [w, w], terms: [], outputs });
  };
  // Two planes of each weight, x, u, two matrices, and the outputs.
  assert.deepEqual([fits(9, 1), fits(9, 2), fits(10, 2)], [true, false, true]);
});

gpuTest("a product with two weights names the operand whose shape is wrong", async (gpu) => {
  await run(gpu, {
    x: [new Float64Array(8), [2, 4]],
    wide: [new Float64Array(10), [2, 5]],
    y: filled(0, 2, 8),
    w: filled(0, 8, 4),
  }, (recorder, { x, wide, y, w }) => {
    const weight: Weight = { type: "f32", values: w, shape: [8, 4] }, weights = [weight, weight] as const;
    const options = { compute: "f32", layout: SINGLE_LANE } as const;
    assert.throws(
      () => matmulTwin(recorder, { x: wide, weights, out: [y, y] }, options),
      new ShapeError("Cannot use first weight [8, 4]: expected [8, 5]"),
    );
    assert.throws(
      () => matmulTwin(recorder, { x, weights, out: [y, x] }, options),
      new ShapeError("Cannot use y_1 [2, 4]: expected [2, 8]"),
    );
  });
});
