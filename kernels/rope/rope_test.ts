import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { rope, ropeTable } from "./rope.ts";
import { CASES, type RopeCase } from "./rope_cases.ts";
import { ropeReference } from "./rope_reference.ts";

/** The table is rounded to f32 once, and each output is two products: three roundings of 6e-8 of values up to 4. */
const tolerance = { relative: 1e-6, absolute: 1e-6 };

const positionsOf = ({ rows, last }: RopeCase) =>
  Array.from({ length: rows }, (_, n) => Math.max(0, last - 7 * n));

async function runRope(gpu: Gpu, shape: RopeCase, x: Float64Array, inverse: boolean, rows = shape.rows) {
  const { heads, width, base, pairing, factors = null, last } = shape;
  const table = ropeTable(width, { base, factors }, last + 1);
  const out = await run(gpu, {
    x: [x, [rows, heads, width]],
    positions: [positionsOf(shape).slice(-rows), [rows], "u32"],
    cosines: [table.cosines, table.shape],
    sines: [table.sines, table.shape],
  }, (recorder, t) => rope(recorder, t, { inverse, pairing }));
  return out.x;
}

for (const shape of CASES) {
  gpuTest(`rope agrees with its f64 reference: ${shape.name}`, async (gpu) => {
    const x = randomNormal(1, shape.rows * shape.heads * shape.width);
    const expected = ropeReference({ ...shape, positions: positionsOf(shape), x });
    expectClose(await runRope(gpu, shape, x, false), expected, tolerance, "x");
  });
}

for (const shape of [...CASES.slice(0, 2), CASES.at(-1)!]) {
  gpuTest(`rope's inverse is the gradient: ${shape.name}`, async (gpu) => {
    const count = shape.rows * shape.heads * shape.width;
    const x = randomNormal(1, count), d_y = randomNormal(2, count);
    const loss = (x: Float64Array) =>
      ropeReference({ ...shape, positions: positionsOf(shape), x }).reduce(
        (sum, y, i) => sum + y * d_y[i]!,
        0,
      );
    const numeric = centralDifferences(x, loss);
    expectClose(await runRope(gpu, shape, d_y, true), numeric, { relative: 1e-5, absolute: 1e-6 }, "d_x");
  });
}

for (const name of ["a model's heads", "adjacent pairs"]) {
  gpuTest(`rope's rows do not depend on the number of rows: ${name}`, async (gpu) => {
    const shape = CASES.find((c) => c.name === name)!;
    const width = shape.heads * shape.width;
    const x = randomNormal(1, shape.rows * width);
    const all = await runRope(gpu, shape, x, false);
    const alone = await runRope(gpu, shape, x.slice(-width), false, 1);
    assert.deepEqual(alone, all.slice(-width));
  });
}

for (const name of ["an odd number of heads", "adjacent pairs"]) {
  gpuTest(`rope gives the same bits whether a thread rotates one head or all: ${name}`, async (gpu) => {
    const shape = CASES.find((c) => c.name === name)!;
    const x = randomNormal(1, shape.rows * shape.heads * shape.width);
    const as = (software: boolean): Gpu => ({ ...gpu, facts: { ...gpu.facts, software } });
    assert.deepEqual(await runRope(as(false), shape, x, false), await runRope(as(true), shape, x, false));
  });
}

gpuTest("rope names the tensor whose shape is wrong", async (gpu) => {
  await run(
    gpu,
    { x: filled(0, 2, 3, 4), odd: filled(0, 2, 3, 3), v: filled(0, 2), t: filled(0, 9, 4) },
    (recorder, t) => {
      const cosines = t.t, sines = t.t, positions = t.v, options = { inverse: false };
      assert.throws(
        () => rope(recorder, { x: t.x, positions, cosines, sines }, options),
        new ShapeError("Cannot use cosines [9, 4]: expected [9, 2]"),
      );
      assert.throws(
        () => rope(recorder, { x: t.odd, positions, cosines, sines }, options),
        new ShapeError("Cannot use head width 3: expected a multiple of 2"),
      );
    },
  );
});
