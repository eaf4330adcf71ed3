import assert from "node:assert/strict";
import type { GpuCard } from "../../core/device.ts";
import { assumedGpu } from "../assumed_gpu.ts";
import { SUBGROUP_MATRIX } from "../device.ts";
import {
  expectClose,
  filled,
  gpuTest,
  lacksF16,
  limitedAllocator,
  randomNormal,
  randomWeight,
  run,
  uploadWeight,
} from "../gpu_testing.ts";
import type { Gpu } from "../device.ts";
import type { WgslPart } from "../kernel.ts";
import { dawnTest } from "../webgpu/dawn_testing.ts";
import { openDawn } from "../webgpu/dawn_provider.ts";
import { PART_ROWS, weightParts } from "../weights/weight.ts";
import { WEIGHT_TYPE_NAMES, type WeightTypeName } from "../weights/table.ts";
import { withEmulatedMatrices } from "./emulated_matrices_testing.ts";
import { matmul } from "./matmul.ts";
import { CASES, CHUNK_CASES, type MatmulCase } from "./matmul_cases.ts";
import { chooseMatrices, chunkLength, everyMatrices, layoutName, takesMatrices } from "./matmul_layout.ts";
import { type MatricesLayout, matricesParts, segmentsMatricesParts } from "./matmul_matrices.ts";
import { matmulReference } from "./matmul_reference.ts";
import { rowScales } from "./row_scales.ts";

/** A GPU whose subgroups multiply matrices. */
function cardWith(...features: string[]): GpuCard {
  const { facts, subgroup_size } = assumedGpu();
  return { facts: { ...facts, features: ["subgroups", ...features] }, subgroup_size };
}

const CARD = cardWith("shader-f16", SUBGROUP_MATRIX);

/** The layouts for few, more and many rows. */
const LAYOUTS = [1, 64, 384].map((rows) =>
  chooseMatrices(CARD, "f16", { rows, columns: 20_000, depth: 256 })!
);

/** Those that a software adapter compiles in seconds, and in place of the largest one another split and 16 steps. */
const EMULATED: MatricesLayout[] = [
  LAYOUTS[0]!,
  LAYOUTS[1]!,
  { ...LAYOUTS[1]!, block_columns: 32, across: 1, steps: 16 },
];

/** As in matmul_test.ts, and a device may flush an operand below 2^-14 to 0 when it rounds to f16. */
const TOLERANCE = { relative: 1e-5, absolute: 4e-5 + 4 * 2 ** -14 };
const EXACT = { relative: 0, absolute: 0 };
/** Sums of 512 products. */
const CHUNK_TOLERANCE = { ...TOLERANCE, absolute: 2 * TOLERANCE.absolute };

Deno.test("the form depends on the device and the type of operands, and only its tile and split on the size", () => {
  assert.deepEqual(LAYOUTS.map(({ block_rows }) => block_rows), [16, 64, 128]);
  const chosen = (rows: number, columns: number, depth: number) =>
    layoutName(chooseMatrices(CARD, "f16", { rows, columns, depth })!);
  // The products of a layer of 0.5B: few columns are split along the depth, and a large tile walks it.
  assert.deepEqual([
    chosen(1, 896, 896),
    chosen(64, 896, 4864),
    chosen(64, 4864, 896),
    chosen(4096, 4864, 896),
  ], [
    "16 × 64, matrices of subgroups, split",
    "64 × 64, matrices of subgroups, split",
    "64 × 64, matrices of subgroups, split",
    "128 × 128, matrices of subgroups",
  ]);
  assert.equal(chosen(64, 151_936, 896), "64 × 64, matrices of subgroups");
  assert.equal(chosen(1, 64, 128), "16 × 64, matrices of subgroups");
  assert.deepEqual(everyMatrices(CARD, "f16").map(layoutName), [
    "128 × 128, matrices of subgroups",
    "64 × 64, matrices of subgroups",
    "16 × 64, matrices of subgroups",
  ]);
  const software = { ...CARD, facts: { ...CARD.facts, software: true } };
  const size = { rows: 64, columns: 896, depth: 896 };
  assert.ok(takesMatrices(CARD, "f16"));
  for (const card of [cardWith("shader-f16"), cardWith(SUBGROUP_MATRIX), software]) {
    assert.deepEqual([takesMatrices(card, "f16"), chooseMatrices(card, "f16", size)], [false, null]);
  }
  assert.deepEqual([takesMatrices(CARD, "f32"), chooseMatrices(CARD, "f32", size)], [false, null]);
});

dawnTest(
  "Dawn's compiler accepts the matmul of subgroup matrices for every type of weights (not run: it has no adapter here)",
  async () => {
    const features = ["subgroups", "shader-f16", SUBGROUP_MATRIX] as GPUFeatureName[];
    const device = await (await openDawn("null").requestAdapter())!.requestDevice({
      requiredFeatures: features,
    });
    const errorOf = async (code: string) => {
      device.pushErrorScope("validation");
      const module = device.createShaderModule({ code });
      device.createComputePipeline({ layout: "auto", compute: { module, entryPoint: "main" } });
      return (await device.popErrorScope())?.message;
    };
    const check = async (name: string, parts: readonly WgslPart[]) => {
      const code = parts.map(({ text }) => text).join("\n");
      assert.equal(await errorOf(code), undefined, name);
      // The compiler looks at the matrices: others do not fit.
      const other = code.replace("subgroup_matrix_right<f16, 16, 16>", "subgroup_matrix_right<f16, 16, 8>");
      assert.match(await errorOf(other) ?? "", /subgroupMatrixMultiplyAccumulate/);
    };
    for (const layout of LAYOUTS) {
      for (const weight of WEIGHT_TYPE_NAMES) {
        for (const orientation of ["nt", "nn"] as const) {
          for (const is_scaled of [false, true]) {
            await check(
              `${orientation} ${weight} ${layout.block_rows} ${is_scaled}`,
              matricesParts({ weight, orientation, compute: "f16" }, layout, is_scaled),
            );
          }
        }
      }
      await check(
        `segments ${layout.block_rows}`,
        segmentsMatricesParts(["q4_k", "f16", "q6_k", "f32"], layout),
      );
    }
    device.destroy();
  },
);

/** Of gradients: one chunk in part, several, and a weight in parts. */
const SCALED = [
  { type: "f16", rows: 33, depth: 68, columns: 76, parts: 1 },
  { type: "f16", rows: 21, depth: 640, columns: 96, parts: 1 },
  { type: "q8_0", rows: 17, depth: 2 * PART_ROWS + 32, columns: 64, parts: 3 },
] as const;

const rounded = (values: Float64Array) => Float64Array.from(Float16Array.from(values));

interface Setting {
  orientation: "nt" | "nn";
  layout: MatricesLayout;
  type?: WeightTypeName;
  parts?: number;
}

async function runCase(device: Gpu, shape: MatmulCase, setting: Setting) {
  const gpu = withEmulatedMatrices(device);
  const { rows, depth, columns, rank } = shape, { orientation, layout, type = "f16", parts = 1 } = setting;
  const stride = rank + 8, scale = 0.5;
  const weight_shape: [number, number] = orientation === "nt" ? [columns, depth] : [depth, columns];
  const w = randomWeight(2, type, columns * depth),
    limited = limitedAllocator(gpu, PART_ROWS * weight_shape[1]);
  const x = randomNormal(1, rows * depth), u = randomNormal(4, rows * stride);
  const matrix = randomNormal(5, Math.max(4, columns * rank)), residual = randomNormal(6, rows * columns);
  const matrix_shape = orientation === "nt" ? [columns, rank] : [rank, columns];
  const out = await run(gpu, {
    x: [x, [rows, depth]],
    u: [u, [rows, stride]],
    matrix: [matrix, rank === 0 ? [matrix.length] : matrix_shape],
    residual: [residual, [rows, columns]],
    y: filled(NaN, rows, columns),
  }, (recorder, t, allocator) => {
    const weight = uploadWeight(parts === 1 ? allocator : limited, { type, shape: weight_shape }, w.bytes);
    assert.equal(weightParts(weight).length, parts);
    const lora = rank === 0 ? undefined : { u: t.u, column: 4, matrix: t.matrix, scale };
    matmul(recorder, orientation, {
      ...{ x: t.x, weight, y: t.y, lora },
      residual: shape.residual ? t.residual : undefined,
    }, { compute: "f16", layout });
  });
  limited.destroy();
  const expected = matmulReference({
    ...{ rows, depth, columns, orientation, x: rounded(x), w: rounded(w.values) },
    ...(rank > 0 && {
      lora: {
        rank,
        stride,
        column: 4,
        scale: 1,
        u: rounded(u.map((v) => scale * v)),
        matrix: rounded(matrix),
      },
    }),
    ...(shape.residual && { residual }),
  });
  return { y: out.y, expected };
}

for (const shape of CASES) {
  gpuTest(
    `matmul with emulated subgroup matrices agrees with its f64 reference: ${shape.name}`,
    async (gpu) => {
      for (const orientation of ["nt", "nn"] as const) {
        const all: Float64Array[] = [];
        for (const layout of EMULATED) {
          const { y, expected } = await runCase(gpu, shape, { orientation, layout });
          expectClose(y, expected, TOLERANCE, `${orientation} ${JSON.stringify(layout)}`);
          all.push(y);
        }
        for (const y of all) expectClose(y, all[0]!, EXACT, `${orientation}, the bits of every tile`);
      }
    },
    lacksF16,
  );
}

for (const shape of CHUNK_CASES) {
  gpuTest(
    `chunks of emulated subgroup matrices have the same bits, walked or split: ${shape.name}`,
    async (gpu) => {
      assert.ok(chunkLength(shape) < shape.depth);
      for (const orientation of ["nt", "nn"] as const) {
        let first: Float64Array | null = null;
        for (const tile of EMULATED) {
          for (const split of [false, true]) {
            const layout = { ...tile, split }, name = `${orientation} ${JSON.stringify(layout)}`;
            const { y, expected } = await runCase(gpu, shape, { orientation, layout });
            expectClose(y, expected, CHUNK_TOLERANCE, name);
            if (first) expectClose(y, first, EXACT, name);
            first ??= y;
          }
        }
      }
    },
    lacksF16,
  );
}

gpuTest(
  "matmul with emulated subgroup matrices goes on from part to part of a weight with the same bits",
  async (gpu) => {
    const long = 2 * PART_ROWS + 32, sizes = { rows: 33, rank: 8, residual: true, name: "" };
    for (const orientation of ["nt", "nn"] as const) {
      const shape = orientation === "nt"
        ? { ...sizes, columns: long, depth: 64 }
        : { ...sizes, columns: 64, depth: long };
      const setting = { orientation, layout: LAYOUTS[1]!, type: "q8_0" } as const;
      const whole = await runCase(gpu, shape, setting);
      const split = await runCase(gpu, shape, { ...setting, parts: 3 });
      expectClose(split.y, whole.y, EXACT, orientation);
      expectClose(whole.y, whole.expected, TOLERANCE, `${orientation} and its reference`);
    }
  },
  lacksF16,
);

/** Rows of small numbers, as gradients are; one of zeros, one of large numbers, and one whose numbers have many powers. */
function gradientRows(rows: number, depth: number): Float64Array {
  const values = randomNormal(1, rows * depth);
  const factorOf = (row: number, d: number) =>
    row === 1 ? 0 : row === 2 ? 1e12 : row === 3 ? 2 ** -(d % 20) * 1e-6 : 10 ** -(4 + row % 9);
  return values.map((value, i) => value * factorOf(Math.floor(i / depth), i % depth));
}

gpuTest("scales bring the largest number of a row between 2^14 and 2^15", async (gpu) => {
  const rows = 300, depth = 132, rank = 8, x = gradientRows(rows, depth).map(Math.fround);
  const u = randomNormal(2, rows * rank, 0).map((value, i) => Math.fround(value * 10 ** -(i % 12)));
  x[4 * depth + 7] = Infinity;
  x[5 * depth + 7] = NaN;
  x[6 * depth] = 2 ** -130;
  const given = { x: [x, [rows, depth]], u: [u, [rows, rank]], scales: filled(NaN, rows) } as const;
  for (const scale of [0, -0.5]) {
    const { scales } = await run(gpu, given, (recorder, { x, u, scales }) => {
      rowScales(recorder, { x, lora: scale === 0 ? null : { u, scale }, scales });
    });
    for (const [row, value] of scales.entries()) {
      const largest = Math.max(
        ...x.subarray(row * depth, (row + 1) * depth).map(Math.abs),
        ...u.subarray(row * rank, (row + 1) * rank).map((value) => Math.abs(scale * value)),
      );
      if (largest === 0) assert.equal(value, 2 ** 100);
      else if (!Number.isFinite(largest)) assert.equal(value, 2 ** -114);
      else assert.equal(value, 2 ** Math.min(100, 14 - Math.floor(Math.log2(largest))), `row ${row}`);
    }
  }
});

gpuTest("products of scaled rows keep the bits of numbers that f16 has not", async (gpu) => {
  // A row of zeros has the largest scale of all, which the term's is multiplied with.
  const device = withEmulatedMatrices(gpu), rank = 8, scale = 8;
  for (const { type, rows, depth, columns, parts } of SCALED) {
    const x = gradientRows(rows, depth), before = randomNormal(7, rows * columns).map((v) => v * 1e-6);
    const u = randomNormal(4, rows * rank).map((v, i) => {
      const row = Math.floor(i / rank);
      return row === 1 ? 0 : v * 10 ** -(5 + row % 9);
    });
    const matrix = randomNormal(5, rank * columns), w = randomWeight(2, type, columns * depth);
    const limited = limitedAllocator(device, parts === 1 ? 4 * depth * columns : PART_ROWS * columns);
    let first: Float64Array | null = null;
    for (const layout of EMULATED.flatMap((tile) => [false, true].map((split) => ({ ...tile, split })))) {
      const { y } = await run(device, {
        ...{ x: [x, [rows, depth]], u: [u, [rows, rank]], matrix: [matrix, [rank, columns]] },
        ...{ y: [before, [rows, columns]], scales: filled(NaN, rows) },
      }, (recorder, { x, u, matrix, scales, y }) => {
        const weight = uploadWeight(limited, { type, shape: [depth, columns] }, w.bytes);
        assert.equal(weightParts(weight).length, parts);
        const lora = { u, column: 0, matrix, scale };
        rowScales(recorder, { x, lora, scales });
        matmul(recorder, "nn", { x, weight, y, lora, row_scales: scales }, {
          ...{ compute: "f16", accumulate: true, layout },
        });
      });
      first ??= y;
      expectClose(y, first, EXACT, JSON.stringify(layout));
    }
    const sizes = { rows, depth, columns, orientation: "nn" } as const;
    const lora = { rank, stride: rank, column: 0, scale, u, matrix };
    const expected = matmulReference({ ...sizes, x, w: w.values, lora });
    for (let row = 0; row < rows; row++) {
      const own = (of: Float64Array) => of.subarray(row * columns, (row + 1) * columns);
      if (row === 1) expectClose(own(first!), own(before).map(Math.fround), EXACT, "a row of zeros");
      const change = own(first!).map((value, i) => value - own(before)[i]!);
      const largest = Math.max(...own(expected).map(Math.abs));
      // Operands have 11 bits, and what its few chunks are added to has 24.
      const absolute = 2 ** -9 * largest + 2 ** -21 * Math.max(largest, ...own(before).map(Math.abs));
      expectClose(change, own(expected), { relative: 0, absolute }, `row ${row} of ${JSON.stringify(sizes)}`);
    }
    limited.destroy();
  }
}, lacksF16);
