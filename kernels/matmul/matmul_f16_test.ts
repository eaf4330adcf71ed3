import { expectClose, filled, gpuTest, lacksF16, run, uploadWeight } from "../gpu_testing.ts";
import { WEIGHT_TYPE_NAMES } from "../weights/table.ts";
import { matmul } from "./matmul.ts";
import { CASES, type MatmulCase } from "./matmul_cases.ts";
import { chooseLayout, everyLayout, TILES } from "./matmul_layout.ts";
import { EXACT, inputs, runCase } from "./matmul_testing.ts";
import { readsPairs } from "./matmul_text.ts";

const SMALL = { ...TILES.small, split: false };

gpuTest("matmul with f16 operands rounds both, and sums in f32", async (gpu) => {
  const shape: MatmulCase = { name: "", rows: 5, depth: 64, columns: 8, rank: 0, residual: false };
  const given = inputs(shape);
  given.x.set([1e6, -1e6, 65_519, 65_520]); // What is beyond the largest f16 becomes that, not infinite.
  const clamped = given.x.map((v) => Math.max(-65_504, Math.min(65_504, v)));
  const rounded = { ...given, x: Float64Array.from(Float16Array.from(clamped)) };
  for (const layout of [everyLayout(gpu).at(-1)!, SMALL]) {
    const setting = { type: "f16", orientation: "nt", layout } as const;
    const { y } = await runCase(gpu, shape, { ...setting, compute: "f16" }, given);
    const exact = await runCase(gpu, shape, setting, rounded);
    expectClose(y, exact.y, EXACT, JSON.stringify(layout));
  }
}, lacksF16);

gpuTest(
  "a row has the same bits alone and among others, with f16 operands and weights in pairs",
  async (gpu) => {
    const shape = { ...CASES[4]!, rank: 0, residual: false }, given = inputs(shape);
    const first = {
      ...given,
      x: given.x.subarray(0, shape.depth),
      residual: given.residual.subarray(0, shape.columns),
    };
    for (const type of WEIGHT_TYPE_NAMES.filter((weight) => readsPairs({ orientation: "nt", weight }))) {
      const setting = { type, orientation: "nt", compute: "f16" } as const;
      const layoutFor = (rows: number) => chooseLayout(gpu, { ...shape, rows }, { reads_pairs: true });
      const all = await runCase(gpu, shape, { ...setting, layout: layoutFor(shape.rows) }, given);
      const alone = await runCase(gpu, { ...shape, rows: 1 }, { ...setting, layout: layoutFor(1) }, first);
      expectClose(alone.y, all.y.subarray(0, shape.columns), EXACT, type);
    }
  },
  lacksF16,
);

/** The largest and the smallest, and some that are exact in f32 and f16. */
const HALVES = [1, -2.5, 65_504, -65_504, 2 ** -14, 2 ** -24, -3 * 2 ** -20, 0, 1000.5, 7, -(2 ** -15), 5];

for (const compute of ["f32", "f16"] as const) {
  gpuTest(`f16 weights are multiplied as they lie, the smallest too: operands in ${compute}`, async (gpu) => {
    const depth = 16, columns = 12;
    const w = Float16Array.from(
      { length: columns * depth },
      (_, i) => HALVES[(i + (i >> 4)) % HALVES.length]!,
    );
    // x is the identity, so y is the transpose of W.
    const identity = Array.from({ length: depth * depth }, (_, i) => i % (depth + 1) === 0 ? 1 : 0);
    const transpose = Float64Array.from(
      { length: depth * columns },
      (_, i) => w[(i % columns) * depth + Math.floor(i / columns)]!,
    );
    for (const layout of [SMALL, everyLayout(gpu).at(-1)!]) {
      const given = { x: [identity, [depth, depth]], y: filled(NaN, depth, columns) } as const;
      const { y } = await run(gpu, given, (recorder, t, allocator) => {
        const bytes = new Uint8Array(w.buffer);
        const weight = uploadWeight(allocator, { type: "f16", shape: [columns, depth] }, bytes);
        matmul(recorder, "nt", { x: t.x, weight, y: t.y }, { compute, layout });
      });
      expectClose(y, transpose, EXACT, JSON.stringify(layout));
    }
  }, compute === "f16" ? lacksF16 : undefined);
}
