import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import type { Gpu } from "../device.ts";
import { kernelText } from "../kernel.ts";
import { Recorder } from "../recorder.ts";
import { ShapeError } from "../shape.ts";
import { Allocator } from "../tensor.ts";
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
import { PART_ROWS, type Weight, weightParts } from "../weights/weight.ts";
import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import { rowMultiple } from "../weights/weight_type.ts";
import { rmsNorm } from "../rms_norm/rms_norm.ts";
import { matmul, takesA, takesNorm } from "./matmul.ts";
import { CASES } from "./matmul_cases.ts";
import { matmulKernel } from "./matmul_kernel.ts";
import { chooseLayout, everyLayout, type MatmulLayout, TILES } from "./matmul_layout.ts";
import { readsPairs } from "./matmul_text.ts";
import { matmulReference } from "./matmul_reference.ts";
import { matmulTwin } from "./matmul_twin.ts";
import { EXACT, inputs, runCase, TOLERANCE, WALKING } from "./matmul_testing.ts";

const LARGE = WALKING[0]!, SMALL = { ...TILES.small, split: false };

const SINGLE_LANE: MatmulLayout = { form: "lanes", lanes: 1, owns: "rows", tile_rows: 8, tile_vectors: 4 };

/** A software adapter's own forms, and those for few columns. */
function lanesLayouts(gpu: Gpu, orientation: "nt" | "nn"): MatmulLayout[] {
  if (!gpu.facts.software) return [];
  const all = everyLayout(gpu, { reads_pairs: orientation === "nt" }), last = all.at(-1)!;
  const has_few = last.form === "lanes" && last.lanes > 1;
  return has_few ? [...all, ...[2, 1].map((tile_vectors) => ({ ...last, tile_vectors }))] : all;
}

/** The forms that this device can run: its own, the one without broadcasts, and those of GPUs. */
const layouts = (gpu: Gpu, orientation: "nt" | "nn"): MatmulLayout[] => [
  ...lanesLayouts(gpu, orientation),
  SINGLE_LANE,
  ...WALKING,
];

/**
 * The types that a form is tested with. Forms of a family read a weight by the same text, so each type meets each
 * family once; compiling a large register tile takes a software adapter seconds.
 */
function types(layout: MatmulLayout): readonly WeightTypeName[] {
  if (layout.form === "lanes") {
    if (layout.owns === "columns") return ["f16"];
    if (layout.tile_vectors < 4) return ["f32"];
    return layout.lanes === 1 ? ["q8_0"] : WEIGHT_TYPE_NAMES;
  }
  return layout.block_rows === 16 ? WEIGHT_TYPE_NAMES : layout.block_columns === 16 ? ["f32"] : ["f16"];
}

for (const shape of CASES) {
  gpuTest(`matmul agrees with its f64 reference in every form: ${shape.name}`, async (gpu) => {
    for (const orientation of ["nt", "nn"] as const) {
      for (const layout of layouts(gpu, orientation)) {
        for (const type of types(layout)) {
          const row = orientation === "nt" ? shape.depth : shape.columns;
          if (row % rowMultiple(WEIGHT_TYPES[type]) !== 0) continue;
          const { y, expected } = await runCase(gpu, shape, { type, orientation, layout });
          expectClose(y, expected, TOLERANCE, `${orientation} ${type} ${JSON.stringify(layout)}`);
        }
      }
    }
  });
}

for (const compute of ["f32", "f16"] as const) {
  gpuTest(
    `matmul's forms and numbers of rows give the same bits for a row: operands in ${compute}`,
    async (gpu) => {
      const shape = { ...CASES[4]!, residual: true };
      const given = inputs(shape), at = 69;
      const last = {
        ...given,
        x: given.x.subarray(at * shape.depth),
        u: given.u.subarray(at * given.lora!.stride),
        residual: given.residual.subarray(at * shape.columns),
      };
      for (const orientation of ["nt", "nn"] as const) {
        const setting = { type: "f16", orientation, compute } as const;
        // Large register tiles take seconds to compile; in f16 their text differs from the others' as in f32.
        const [first, ...others] = compute === "f32"
          ? [...layouts(gpu, orientation), { ...SINGLE_LANE, tile_rows: 1 }]
          : layouts(gpu, orientation).filter((layout) => layout !== SINGLE_LANE && layout !== LARGE);
        const all = await runCase(gpu, shape, { ...setting, layout: first! });
        // The tiles of GPUs sum the low-rank term apart and add it; the other forms go on with the sum of the depth.
        const plain = { ...shape, rank: 0 },
          of_depth = await runCase(gpu, plain, { ...setting, layout: first! });
        const tiles = await runCase(gpu, shape, { ...setting, layout: SMALL });
        for (const layout of others) {
          const { y } = await runCase(gpu, shape, { ...setting, layout });
          const same = layout.form === first!.form ? all : tiles;
          expectClose(y, same.y, EXACT, `${orientation} ${JSON.stringify(layout)}`);
          if (layout.form === first!.form) continue;
          const other = await runCase(gpu, plain, { ...setting, layout });
          expectClose(other.y, of_depth.y, EXACT, `${orientation} ${JSON.stringify(layout)}, no rank`);
        }
        const reads_pairs = readsPairs({ orientation, weight: "f16" });
        const layout = chooseLayout(gpu, { ...shape, rows: 1 }, { reads_pairs });
        const alone = await runCase(gpu, { ...shape, rows: 1 }, { ...setting, layout }, last);
        expectClose(alone.y, all.y.subarray(at * shape.columns), EXACT, `${orientation}, one row`);
      }
    },
    compute === "f16" ? lacksF16 : undefined,
  );
}

gpuTest(
  "matmul's forms and numbers of rows give the same bits for a row: every type of weights",
  async (gpu) => {
    const shape = { ...CASES[4]!, rank: 0, residual: true };
    const given = inputs(shape);
    const first = {
      ...given,
      x: given.x.subarray(0, shape.depth),
      residual: given.residual.subarray(0, shape.columns),
    };
    for (const orientation of ["nt", "nn"] as const) {
      for (const type of WEIGHT_TYPE_NAMES) {
        const setting = { type, orientation }, reads_pairs = readsPairs({ orientation, weight: type });
        const all = await runCase(gpu, shape, { ...setting, layout: chooseLayout(gpu, shape) });
        const tiles = await runCase(gpu, shape, { ...setting, layout: SMALL });
        expectClose(tiles.y, all.y, EXACT, `${orientation} ${type}, in tiles`);
        const alone = { ...setting, layout: chooseLayout(gpu, { ...shape, rows: 1 }, { reads_pairs }) };
        const { y } = await runCase(gpu, { ...shape, rows: 1 }, alone, first);
        expectClose(y, all.y.subarray(0, shape.columns), EXACT, `${orientation} ${type}, one row`);
      }
    }
  },
);

gpuTest(
  "a weight in three parts gives the bits of one in a single part, with the low-rank term and the residual",
  async (gpu) => {
    const long = 2 * PART_ROWS + 32, sizes = { rows: 33, rank: 8, residual: true, name: "" };
    for (const orientation of ["nt", "nn"] as const) {
      const shape = orientation === "nt"
        ? { ...sizes, columns: long, depth: 64 }
        : { ...sizes, columns: 64, depth: long };
      for (const layout of [...everyLayout(gpu), SMALL]) {
        const type = layout === SMALL ? "f32" as const : "q8_0" as const;
        const setting = { type, orientation, layout }, name = `${orientation} ${JSON.stringify(layout)}`;
        const whole = await runCase(gpu, shape, setting);
        const split = await runCase(gpu, shape, { ...setting, parts: 3 });
        expectClose(split.y, whole.y, EXACT, name);
        expectClose(split.y, split.expected, TOLERANCE, `${name} and its reference`);
      }
    }
  },
);

gpuTest("a weight in parts is added to what y holds once", async (gpu) => {
  const rows = 3, long = PART_ROWS + 4, limited = limitedAllocator(gpu, 4 * 4 * PART_ROWS);
  const w = randomWeight(3, "f32", long * 4), x = randomNormal(8, rows * long);
  const given = {
    x: [x, [rows, long]],
    narrow: [x.subarray(0, rows * 4), [rows, 4]],
    y: filled(2, rows, 4),
    wide: filled(2, rows, long),
  } as const;
  const { y, wide } = await run(gpu, given, (recorder, t) => {
    const weight = uploadWeight(limited, { type: "f32", shape: [long, 4] }, w.bytes);
    assert.equal(weightParts(weight).length, 2);
    const options = { compute: "f32", accumulate: true } as const;
    matmul(recorder, "nn", { x: t.x, weight, y: t.y }, options);
    matmul(recorder, "nt", { x: t.narrow, weight, y: t.wide }, options);
  });
  limited.destroy();
  const shape = { rows, w: w.values };
  const nn = matmulReference({ ...shape, depth: long, columns: 4, orientation: "nn", x });
  const nt = matmulReference({ ...shape, depth: 4, columns: long, orientation: "nt", x });
  expectClose(y, nn.map((value) => value + 2), TOLERANCE, "nn");
  expectClose(wide, nt.map((value) => value + 2), TOLERANCE, "nt");
});

gpuTest("matmul adds to what y holds when asked", async (gpu) => {
  const out = await run(
    gpu,
    { x: [[1, 2, 3, 4], [1, 4]], w: [new Array(16).fill(1), [4, 4]], y: filled(0.5, 1, 4) },
    (r, t) => {
      const weight: Weight = { type: "f32", values: t.w, shape: [4, 4] };
      matmul(r, "nt", { x: t.x, weight, y: t.y }, { compute: "f32", accumulate: true });
    },
  );
  assert.equal(out.y[0], 10.5);
});

// Depths with and without a rest; a rank below the lanes, and one that they do not share evenly.
for (const [depth, rank, compute] of [[64, 4, "f32"], [20, 12, "f16"]] as const) {
  gpuTest(
    `a product that multiplies with A itself has the bits of one after x · Aᵀ: ${compute}`,
    async (gpu) => {
      const N = 5, C = 36, lanes = layouts(gpu, "nt").filter(({ form }) => form === "lanes");
      const w = randomWeight(1, "f16", C * depth);
      for (const layout of lanes) {
        const out = await run(gpu, {
          x: [randomNormal(2, N * depth), [N, depth]],
          a: [randomNormal(3, 2 * rank * depth), [2 * rank, depth]],
          b: [randomNormal(4, C * rank), [C, rank]],
          u: filled(NaN, N, 2 * rank),
          y: filled(NaN, N, C),
          own: filled(NaN, N, C),
        }, (recorder, t, allocator) => {
          const weight = uploadWeight(allocator, { type: "f16", shape: [C, depth] }, w.bytes);
          const A: Weight = { type: "f32", values: t.a, shape: [2 * rank, depth] };
          const term = { column: rank, matrix: t.b, scale: 0.3 }, options = { compute, layout } as const;
          matmul(recorder, "nt", { x: t.x, weight: A, y: t.u }, { compute, layout: SINGLE_LANE });
          matmul(recorder, "nt", { x: t.x, weight, y: t.y, lora: { ...term, u: t.u } }, options);
          matmul(
            recorder,
            "nt",
            { x: t.x, weight, y: t.own, lora: { ...term, u: t.a, u_is_a: true } },
            options,
          );
        });
        expectClose(out.own, out.y, EXACT, `rank ${rank}, ${compute}, ${JSON.stringify(layout)}`);
      }
    },
    compute === "f16" ? lacksF16 : undefined,
  );
}

// A depth with pairs and a rest, and one with a rest alone. Compiling takes seconds, so each form has one kind of product with
// two weights: the first one's is gated, the others have an output for each.
for (const [depth, rank, compute] of [[48, 4, "f32"], [20, 12, "f16"]] as const) {
  gpuTest(`a product that normalises x has the bits of one after the norm: ${compute}`, async (gpu) => {
    const rows = 5, C = 36, eps = 1e-3, is_first = compute === "f32";
    const few = layouts(gpu, "nt").filter((layout) => layout.form === "lanes" && layout.owns === "columns");
    for (const layout of is_first ? few.slice(0, 1) : few.slice(1)) {
      const w = [1, 2].map((seed) => randomWeight(seed, "f16", C * depth));
      const out = await run(gpu, {
        x: [randomNormal(3, rows * depth), [rows, depth]],
        gamma: [randomNormal(4, depth, 1), [depth]],
        a: [randomNormal(5, 2 * rank * depth), [2 * rank, depth]],
        b: [randomNormal(6, C * rank), [C, rank]],
        ...{ normed: filled(NaN, rows, depth), rstd: filled(NaN, rows) },
        ...{ after: filled(NaN, rows, C), own: filled(NaN, rows, C) },
        ...{ after_0: filled(NaN, rows, C), own_0: filled(NaN, rows, C) },
        ...{ after_1: filled(0, rows, C), own_1: filled(0, rows, C) },
      }, (recorder, t, allocator) => {
        const [weight, second] = w.map(({ bytes }) =>
          uploadWeight(allocator, { type: "f16", shape: [C, depth] }, bytes)
        ) as [Weight, Weight];
        const term = { u: t.a, u_is_a: true, column: 0, matrix: t.b, scale: 0.3 },
          options = { compute, layout };
        const weights = { weights: [weight, second], terms: [term, { ...term, column: rank }] } as const;
        rmsNorm(recorder, { x: t.x, gamma: t.gamma, y: t.normed, rstd: t.rstd }, eps);
        const normed = [{ x: t.normed }, t.after, t.after_0, t.after_1] as const;
        const own = [{ x: t.x, norm: { gamma: t.gamma, eps } }, t.own, t.own_0, t.own_1] as const;
        for (const [input, y, y_0, y_1] of [normed, own]) {
          matmul(recorder, "nt", { ...input, weight, y, lora: term }, options);
          const out = is_first ? { h: y_0, activation: "silu" as const } : [y_0, y_1] as const;
          matmulTwin(recorder, { ...input, ...weights, out }, options);
        }
      });
      const name = JSON.stringify(layout);
      expectClose(out.own, out.after, EXACT, name);
      expectClose(out.own_0, out.after_0, EXACT, `first or gated, ${name}`);
      expectClose(out.own_1, out.after_1, EXACT, `second, ${name}`);
    }
  }, compute === "f16" ? lacksF16 : undefined);
}

Deno.test("products of few rows normalise x on a software adapter that binds all that they need", () => {
  const card = assumedGpu(), facts = { ...card.facts, software: true }, lanes = { facts, subgroup_size: 8 };
  const weight = { type: "f16", shape: [64, 32] } as unknown as Weight;
  assert.deepEqual([1, 4, 5].map((rows) => takesNorm(lanes, rows, weight)), [true, true, false]);
  assert.ok(!takesNorm(lanes, 1, { ...weight, type: "q4_k" } as Weight));
  assert.ok(!takesNorm({ ...lanes, subgroup_size: 0 }, 1, weight));
  assert.ok(!takesNorm(card, 1, weight));
  // 2^17 squares: 16 workgroups of 32 columns add up 8,192.
  const wide = (columns: number, rows: number) =>
    takesNorm(lanes, rows, { type: "f16", shape: [columns, 8192] } as unknown as Weight);
  assert.deepEqual([wide(512, 1), wide(516, 1), wide(128, 4), wide(132, 4)], [true, false, true, false]);
  const binds = (maxStorageBuffersPerShaderStage: number) => ({
    facts: { ...facts, limits: { ...facts.limits, maxStorageBuffersPerShaderStage } },
    subgroup_size: 8,
  });
  assert.deepEqual([8, 9].map((most) => takesNorm(binds(most), 1, weight)), [false, true]);
});

Deno.test("products multiply with A on a software adapter, where that takes less than a dispatch", () => {
  const card = assumedGpu(), lanes = { facts: { ...card.facts, software: true }, subgroup_size: 8 };
  // 32 workgroups for gate and up of the demo's model: 32 · 8 · 256 · 32 products.
  const demo = { rows: 32, columns: 1024, depth: 256, rank: 8 };
  assert.ok(takesA(lanes, demo));
  assert.ok(!takesA(lanes, { ...demo, rows: 33 }));
  assert.ok(!takesA(lanes, { ...demo, rows: 1, rank: 20 }));
  // One row costs as much as four.
  assert.ok(takesA(lanes, { ...demo, rows: 1, rank: 16, depth: 1024 }));
  assert.ok(!takesA(lanes, { ...demo, rows: 1, rank: 16, depth: 1028 }));
  assert.ok(!takesA({ ...lanes, subgroup_size: 0 }, { ...demo, rows: 1 }));
  assert.ok(!takesA(card, { ...demo, rows: 1 }));
});

gpuTest("matmul names the operand whose shape is wrong", (gpu) => {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  const tensor = (...shape: number[]) => allocator.create("test", shape);
  const weight: Weight = { type: "f32", values: tensor(8, 4), shape: [8, 4] };
  const compute = { compute: "f32" } as const;
  assert.throws(
    () => matmul(recorder, "nt", { x: tensor(2, 5), weight, y: tensor(2, 8) }, compute),
    new ShapeError("Cannot use weight [8, 4]: expected [8, 5]"),
  );
  assert.throws(
    () => matmul(recorder, "nt", { x: tensor(2, 4), weight, y: tensor(2, 4) }, compute),
    new ShapeError("Cannot use y [2, 4]: expected [2, 8]"),
  );
  const lora = { u: tensor(4, 8), u_is_a: true, column: 0, matrix: tensor(8, 4), scale: 1 };
  assert.throws(
    () => matmul(recorder, "nt", { x: tensor(2, 4), weight, y: tensor(2, 8), lora }, compute),
    new ShapeError("Cannot use u [4, 8]: expected [4, 4]"),
  );
  const a = { ...lora, u: tensor(4, 4) };
  assert.throws(
    () =>
      matmul(recorder, "nt", { x: tensor(2, 4), weight, y: tensor(2, 8), lora: a }, {
        ...compute,
        layout: SMALL,
      }),
    /Cannot take A or two weights/,
  );
  const norm = { gamma: tensor(4), eps: 1 }, y = tensor(2, 8), x = tensor(2, 4);
  assert.throws(
    () => matmul(recorder, "nt", { x, norm: { ...norm, gamma: tensor(8) }, weight, y }, compute),
    new ShapeError("Cannot use gamma [8]: expected [4]"),
  );
  assert.throws(
    () => matmul(recorder, "nt", { x, norm, weight, y }, { ...compute, layout: SMALL }),
    /Cannot normalise x in a product/,
  );
  allocator.destroy();
  recorder.destroy();
});

Deno.test("on a software adapter the tile of few columns has little in vain", () => {
  const card = assumedGpu(), adapter = { facts: { ...card.facts, software: true }, subgroup_size: 8 };
  const vectors = [4, 8, 12, 16, 24, 32, 36, 48, 96, 512, 1000].map((columns) => {
    const layout = chooseLayout(adapter, { rows: 100, columns, depth: 64 });
    return layout.form === "lanes" ? layout.tile_vectors : null;
  });
  assert.deepEqual(vectors, [1, 1, 2, 2, 4, 4, 2, 2, 4, 4, 4]);
});

Deno.test("the generated matmul multiplies each of its outputs once per step", () => {
  const lanes = matmulKernel({ weight: "f16", orientation: "nt", compute: "f32" }, {
    form: "lanes",
    lanes: 8,
    owns: "rows",
    tile_rows: 4,
    tile_vectors: 4,
  });
  const tiles = matmulKernel({ weight: "f16", orientation: "nn", compute: "f32" }, LARGE);
  // A loop for the weight and one for the low-rank term, of 4 rows × 32 columns; and of 8 × 8 / 4 vectors × 16 steps.
  assert.equal(kernelText(lanes).split("= add_products(").length - 1, 2 * 4 * 32);
  assert.equal(kernelText(tiles).split("fma(").length - 1, 16 * 16);
  assert.match(kernelText(lanes), /broadcast_vec4f_7\(w3\)/);
});
