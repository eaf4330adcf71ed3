import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import { countingGpu } from "../counting_gpu.ts";
import type { Gpu } from "../device.ts";
import { centralDifferences, expectClose, gpuTest, lacksF16, randomNormal } from "../gpu_testing.ts";
import type { Grid, Kernel, Operands, Params } from "../kernel.ts";
import { Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv } from "../shape.ts";
import { Allocator, type Tensor } from "../tensor.ts";
import { PART_ROWS, type Weight } from "../weights/weight.ts";
import { WEIGHT_TYPE_NAMES, WEIGHT_TYPES } from "../weights/table.ts";
import { rowMultiple } from "../weights/weight_type.ts";
import { matmul } from "./matmul.ts";
import { CHUNK_CASES, type MatmulCase } from "./matmul_cases.ts";
import { chooseLayout, chunkLength, type MatmulLayout, MULTIPROCESSORS, TILES } from "./matmul_layout.ts";
import { matmulReference } from "./matmul_reference.ts";
import { EXACT, inputs, runCase, SPLIT, TOLERANCE, WALKING } from "./matmul_testing.ts";

const LAYOUTS: readonly MatmulLayout[] = [...WALKING, ...SPLIT];
const SMALL = { ...TILES.small, split: true };

/** The chunks of a product. */
const chunksOf = (shape: MatmulCase) => ceilDiv(shape.depth, chunkLength(shape));

for (const shape of CHUNK_CASES) {
  gpuTest(
    `chunks agree with the f64 reference and in all their bits in every tile: ${shape.name}`,
    async (gpu) => {
      assert.ok(chunksOf(shape) > 1);
      for (const orientation of ["nt", "nn"] as const) {
        const setting = { type: "f32", orientation } as const;
        const first = await runCase(gpu, shape, { ...setting, layout: LAYOUTS[0]! });
        expectClose(first.y, first.expected, TOLERANCE, orientation);
        for (const layout of LAYOUTS.slice(1)) {
          const { y } = await runCase(gpu, shape, { ...setting, layout });
          expectClose(y, first.y, EXACT, `${orientation} ${JSON.stringify(layout)}`);
        }
      }
    },
  );
}

gpuTest("chunks of every type of weights agree with the f64 reference, walked or split", async (gpu) => {
  const shape = CHUNK_CASES[3]!;
  for (const orientation of ["nt", "nn"] as const) {
    for (const type of WEIGHT_TYPE_NAMES) {
      assert.equal(shape.depth % rowMultiple(WEIGHT_TYPES[type]), 0);
      const setting = { type, orientation };
      const split = await runCase(gpu, shape, { ...setting, layout: SMALL });
      expectClose(split.y, split.expected, TOLERANCE, `${orientation} ${type}`);
      const walked = await runCase(gpu, shape, { ...setting, layout: { ...SMALL, split: false } });
      expectClose(walked.y, split.y, EXACT, `${orientation} ${type}`);
    }
  }
});

gpuTest(
  "a row has the same bits alone and among others, walked or split, with f16 operands too",
  async (gpu) => {
    const shape = CHUNK_CASES[1]!, given = inputs(shape), at = shape.rows - 1;
    const last = {
      ...given,
      x: given.x.subarray(at * shape.depth),
      u: given.u.subarray(at * given.lora!.stride),
      residual: given.residual.subarray(at * shape.columns),
    };
    for (const orientation of ["nt", "nn"] as const) {
      const setting = { type: "f16", orientation, compute: "f16" } as const;
      const all = await runCase(gpu, shape, { ...setting, layout: WALKING[1]! }, given);
      for (const layout of [SMALL, { ...SMALL, split: false }]) {
        const alone = await runCase(gpu, { ...shape, rows: 1 }, { ...setting, layout }, last);
        expectClose(
          alone.y,
          all.y.subarray(at * shape.columns),
          EXACT,
          `${orientation} ${JSON.stringify(layout)}`,
        );
      }
    }
  },
  lacksF16,
);

gpuTest("a split product adds to what y holds as one that walks its chunks", async (gpu) => {
  const shape = { ...CHUNK_CASES[1]!, rank: 0, residual: false };
  const setting = { type: "f32", orientation: "nn", accumulate: true } as const;
  const split = await runCase(gpu, shape, { ...setting, layout: SMALL });
  const walked = await runCase(gpu, shape, { ...setting, layout: { ...SMALL, split: false } });
  expectClose(split.y, split.expected, TOLERANCE, "split");
  expectClose(walked.y, split.y, EXACT, "walked");
});

gpuTest(
  "parts of a weight with several chunks agree with the reference, and in all their bits in every tile",
  async (gpu) => {
    const long = 5 * PART_ROWS + 32, rows = 5;
    for (const orientation of ["nt", "nn"] as const) {
      const shape = orientation === "nt"
        ? { name: "", rows, columns: long, depth: 320, rank: 8, residual: true }
        : { name: "", rows, columns: 64, depth: long, rank: 8, residual: true };
      assert.ok(chunksOf(shape) > 1);
      const setting = { type: "f32", orientation, parts: 6 } as const;
      const split = await runCase(gpu, shape, { ...setting, layout: SMALL });
      expectClose(split.y, split.expected, TOLERANCE, orientation);
      const walked = await runCase(gpu, shape, { ...setting, layout: { ...SMALL, split: false } });
      expectClose(walked.y, split.y, EXACT, orientation);
      // Parts end where chunks end, so they change no bit.
      const whole = await runCase(gpu, shape, { ...setting, parts: 1, layout: SMALL });
      expectClose(whole.y, split.y, EXACT, `${orientation}, one part`);
    }
  },
);

gpuTest("split nn is the gradient of nt by its input", async (gpu) => {
  const rows = 2, depth = 8, columns = 320, layout = SMALL;
  // d is ∂L/∂y of L = Σ d · (x · Wᵀ), so the gradient by x is d · W.
  const shape: MatmulCase = { name: "", rows, columns: depth, depth: columns, rank: 0, residual: false };
  assert.ok(chunksOf(shape) > 1);
  const { y, w, given } = await runCase(gpu, shape, { type: "f32", orientation: "nn", layout });
  const lossOf = (x: Float64Array) => {
    const out = matmulReference({ rows, columns, depth, orientation: "nt", x, w });
    return out.reduce((sum, value, i) => sum + value * given.x[i]!, 0);
  };
  // The loss is linear, so its differences are exact but for rounding in f64.
  expectClose(y, centralDifferences(randomNormal(7, rows * depth), lossOf), TOLERANCE, "gradient");
});

Deno.test("a depth is cut into chunks that depend on the weight's shape alone", () => {
  const cases: [columns: number, depth: number, length: number][] = [
    // Up to 256 steps are one chunk of complete tiles of 16.
    [64, 256, 256],
    [64, 20, 32],
    [64, 260, 64],
    // 14 workgroups for 896 columns: 16 chunks at most, of a multiple of 64 steps.
    [896, 896, 64],
    [896, 4864, 320],
    [4, 4096, 256],
    // 76 workgroups want 4 chunks, 255 want 2, and 256 are enough.
    [4864, 896, 256],
    [255 * 64, 4096, 2048],
    [256 * 64, 4096, 4096],
    [151_936, 896, 896],
  ];
  for (const [columns, depth, length] of cases) {
    assert.equal(chunkLength({ columns, depth }), length, `${columns} columns, depth ${depth}`);
  }
});

/** The layout of a GPU in words: the tile's name, and whether chunks have workgroups of their own. */
function chosen(rows: number, columns: number, depth: number): string {
  const { split, ...tile } = chooseLayout(assumedGpu(), { rows, columns, depth }) as typeof SMALL;
  const [name] = Object.entries(TILES).find(([, each]) => JSON.stringify(each) === JSON.stringify(tile))!;
  return name + (split ? ", split" : "");
}

Deno.test("a GPU takes the largest tile that gives its multiprocessors work, with chunks if need be", () => {
  // Many rows fill the GPU by themselves.
  assert.equal(chosen(4096, 4864, 896), "large");
  assert.equal(chosen(1, 151_936, 896), "small");
  assert.equal(chosen(64, 151_936, 896), "middle");
  // Few rows, or few columns, do with chunks.
  assert.equal(chosen(1, 896, 896), "small, split");
  assert.equal(chosen(64, 896, 4864), "middle, split");
  assert.equal(chosen(512, 896, 151_936), "large, split");
  // The columns of LoRA's A.
  assert.equal(chosen(4096, 16, 896), "narrow, split");
  assert.equal(chosen(4096, 32, 200), "narrow");
  assert.equal(chosen(4096, 36, 896), "large, split");
  assert.equal(chosen(8, 16, 896), "small, split");
  // 132 workgroups of 128 × 128 are enough, 131 are not.
  assert.equal(chosen(128, 128 * MULTIPROCESSORS, 64), "large");
  assert.equal(chosen(128, 128 * (MULTIPROCESSORS - 1), 64), "middle");
  // 128 rows are at most 1.5 times those that there are.
  assert.equal(chosen(86, 32_768, 896), "large");
  assert.equal(chosen(85, 32_768, 896), "small");
});

/** Keeps the names and grids of dispatches. */
class NamingRecorder extends Recorder {
  readonly named: [name: string, grid: readonly (number | undefined)[]][] = [];
  override dispatch<K extends Kernel>(...given: [K, Params<K>, Operands<K>, Grid]): void {
    this.named.push([given[0].name, given[3]]);
  }
}

Deno.test("sums of chunks that do not fit the scratch tensor are not split", () => {
  const allocator = new Allocator(countingGpu(assumedGpu()).device);
  const gpu: Gpu = countingGpu(assumedGpu()), columns = 1024, depth = 16 * 64;
  // 16 chunks of 768 rows fill it.
  const most = SCRATCH_BYTES / (4 * columns * chunksOf({ columns, depth } as MatmulCase));
  const weight: Weight = {
    type: "f32",
    values: allocator.create("test", [columns, depth]),
    shape: [columns, depth],
  };
  const dispatched = (rows: number, layout?: MatmulLayout) => {
    const recorder = new NamingRecorder(gpu, allocator);
    const x = allocator.create("test", [rows, depth]), y = allocator.create("test", [rows, columns]);
    matmul(recorder, "nt", { x, weight, y }, { compute: "f32", ...(layout && { layout }) });
    return recorder.named;
  };
  const product = "matmul_nt_f32_f32_tiles", tall = { ...TILES.large, split: true };
  assert.deepEqual(dispatched(most, tall), [
    [product, [ceilDiv(most, 128), 8, 16]],
    ["matmul_chunks", [most * columns / 64, 1]],
  ]);
  assert.deepEqual(dispatched(most + 1, tall), [[product, [ceilDiv(most + 1, 128), 8, 1]]]);
  assert.deepEqual(dispatched(most + 1), [[product, [ceilDiv(most + 1, 64), 16, 1]]]);
});

Deno.test("products share one scratch tensor, which is counted once", () => {
  const gpu = countingGpu(assumedGpu()), allocator = new Allocator(gpu.device);
  const recorder = new Recorder(gpu, allocator), before = allocator.bytes.recorder!;
  const scratch: Tensor = recorder.scratch;
  assert.equal(recorder.scratch, scratch);
  assert.equal(allocator.bytes.recorder! - before, SCRATCH_BYTES);
});
