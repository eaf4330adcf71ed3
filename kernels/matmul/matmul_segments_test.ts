import assert from "node:assert/strict";
import { assumedGpu } from "../assumed_gpu.ts";
import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { expectClose, gpuTest, randomNormal, randomWeight, run, uploadWeight } from "../gpu_testing.ts";
import { SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { createWeight, PART_ROWS, type Weight } from "../weights/weight.ts";
import type { WeightTypeName } from "../weights/table.ts";
import { chooseSegmentsTile, chunkLength, TILES } from "./matmul_layout.ts";
import { matmulReference } from "./matmul_reference.ts";
import { fitsSegments, matmulSegments } from "./matmul_segments.ts";
import { EXACT, TOLERANCE } from "./matmul_testing.ts";

const ROWS = 19, DEPTH = 512;
/** Types with one plane and with two; widths of one tile and of several, one of which is not full. */
const SEGMENTS: readonly (readonly [columns: number, type: WeightTypeName])[] = [
  [68, "q6_k"],
  [128, "f16"],
  [132, "q4_0"],
  [12, "f32"],
];

gpuTest(
  "the sums of segments' chunks agree with the f64 reference and in all their bits in every tile",
  async (gpu) => {
    const x = randomNormal(1, ROWS * DEPTH);
    const given = SEGMENTS.map(([columns, type], s) => ({
      ...{ columns, type, chunks: ceilDiv(DEPTH, chunkLength({ columns, depth: DEPTH })) },
      w: randomWeight(2 + s, type, columns * DEPTH),
    }));
    const length = given.reduce((sum, { columns, chunks }) => sum + chunks * ROWS * columns, 0);
    let first: Float64Array | null = null;
    for (const layout of [TILES.small, TILES.middle, TILES.large]) {
      const { sums } = await run(gpu, {
        x: [x, [ROWS, DEPTH]],
        sums: [new Float64Array(length), [length]],
      }, (recorder, t, allocator) => {
        const weights = given.map(({ columns, type, w }) =>
          uploadWeight(allocator, { type, shape: [columns, DEPTH] }, w.bytes)
        );
        // The scratch tensor, where the test can read it.
        Object.defineProperty(recorder, "scratch", { value: t.sums });
        const { segments } = matmulSegments(recorder, { x: t.x, weights }, { compute: "f32", layout });
        assert.deepEqual(segments.map(({ chunks }) => chunks), given.map(({ chunks }) => chunks));
      });
      if (first) expectClose(sums, first, EXACT, JSON.stringify(layout));
      first ??= sums;
    }
    let at = 0;
    for (const { columns, chunks, w, type } of given) {
      assert.ok(chunks > 1);
      const y = new Float64Array(ROWS * columns);
      for (let chunk = 0; chunk < chunks; chunk++) {
        for (let i = 0; i < y.length; i++) y[i]! += first![at + i]!;
        at += y.length;
      }
      const shape = { rows: ROWS, columns, depth: DEPTH, orientation: "nt" as const };
      expectClose(y, matmulReference({ ...shape, x, w: w.values }), TOLERANCE, type);
    }
    assert.equal(at, length);
  },
);

/** A weight without a device. */
function weightOf(type: WeightTypeName, columns: number, depth: number, limit_bytes = Infinity): Weight {
  const create = (_: string, shape: number[]) => ({ shape }) as unknown as Tensor;
  return createWeight({ create, limit_bytes } as never, "test", { type, shape: [columns, depth] });
}

Deno.test("products of segments are for GPUs, weights in one part, scratch and bindings that suffice", () => {
  const card = assumedGpu(), q = weightOf("f16", 896, 896), k = weightOf("q4_k", 896, 1024);
  const size = { rows: 64 };
  const withFacts = (facts: Partial<Gpu["facts"]>) => ({ ...card, facts: { ...card.facts, ...facts } });
  assert.ok(fitsSegments(card, [q, q, q, q], size));
  assert.ok(!fitsSegments(withFacts({ software: true }), [q], size));
  // Nine bindings: three weights of two planes and one of one, x and the sums.
  assert.ok(fitsSegments(card, [k, k, k, q], size));
  assert.ok(!fitsSegments(card, [k, k, k, k], size));
  assert.ok(!fitsSegments(card, [weightOf("f16", 896, 896, 2 * 896 * PART_ROWS)], size));
  // 14 chunks of 896 columns.
  const most = Math.floor(SCRATCH_BYTES / (4 * 14 * 896));
  assert.ok(fitsSegments(card, [q], { rows: most }));
  assert.ok(!fitsSegments(card, [q], { rows: most + 1 }));
});

Deno.test("segments take the largest tile that gives multiprocessors work together", () => {
  const tile = (rows: number, ...columns: number[]) =>
    Object.entries(TILES).find(([, tile]) =>
      tile === chooseSegmentsTile(assumedGpu(), { rows, depth: 896, compute: "f32" }, columns)
    )![0];
  assert.equal(tile(8, 896, 128, 128, 48), "small");
  assert.equal(tile(64, 896, 128, 128, 48), "middle");
  assert.equal(tile(256, 896, 128, 128, 48), "large");
  // In matrices of subgroups too, for operands in f16.
  const card = assumedGpu(), features = ["shader-f16", SUBGROUP_MATRIX];
  const matrices = { ...card, facts: { ...card.facts, features } };
  for (const [rows, expected] of [[8, "16 × 64"], [64, "64 × 64"], [256, "128 × 128"]] as const) {
    const chosen = (compute: "f32" | "f16") =>
      chooseSegmentsTile(matrices, { rows, depth: 896, compute }, [896, 128, 128, 48]);
    assert.deepEqual([chosen("f16").form, chosen("f32").form], ["matrices", "tiles"]);
    assert.equal(`${chosen("f16").block_rows} × ${chosen("f16").block_columns}`, expected);
  }
});
