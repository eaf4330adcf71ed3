import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import type { KernelForm } from "../variant.ts";
import { rmsNorm, rmsNormBackward } from "./rms_norm.ts";
import { CASES, type RmsNormCase } from "./rms_norm_cases.ts";
import { rmsNormReference } from "./rms_norm_reference.ts";

const BEFORE = 0.5;
const forms: readonly KernelForm[] = ["lanes", "tiles"];

/** Sums of 4,096 squares round to about 1e-6 of their size. */
const tolerance = { relative: 1e-5, absolute: 1e-6 };

function inputs({ rows, width, scale }: RmsNormCase) {
  return {
    x: randomNormal(1, rows * width).map((v) => Math.fround(v * scale)),
    gamma: randomNormal(2, width),
    d_y: randomNormal(3, rows * width),
  };
}

/** Forward and backward in one submission; `d_x` is overwritten, `d_sum` accumulated. */
async function runBoth(gpu: Gpu, shape: RmsNormCase, given: ReturnType<typeof inputs>, form: KernelForm) {
  const { rows, width, eps } = shape;
  return await run(gpu, {
    x: [given.x, [rows, width]],
    gamma: [given.gamma, [width]],
    d_y: [given.d_y, [rows, width]],
    y: filled(NaN, rows, width),
    rstd: filled(NaN, rows),
    d_x: filled(NaN, rows, width),
    d_sum: filled(BEFORE, rows, width),
    y_sum: filled(NaN, rows, width),
  }, (recorder, t) => {
    rmsNorm(recorder, t, eps, form);
    rmsNorm(recorder, { ...t, y: t.y_sum, residual: t.d_y }, eps, form);
    rmsNormBackward(recorder, t, { accumulate: false }, form);
    rmsNormBackward(recorder, { ...t, d_x: t.d_sum }, { accumulate: true }, form);
  });
}

for (const form of forms) {
  for (const shape of CASES) {
    gpuTest(`rms_norm (${form}) agrees with its f64 reference: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const actual = await runBoth(gpu, shape, given, form);
      const expected = rmsNormReference({ ...shape, ...given });
      expectClose(actual.y, expected.y, tolerance, "y");
      const sum = actual.y.map((y, i) => Math.fround(y + given.d_y[i]!));
      // The product may be added before it is rounded.
      expectClose(actual.y_sum, sum, { relative: 1e-6, absolute: 1e-6 * shape.scale }, "y with a residual");
      expectClose(actual.rstd, expected.rstd, tolerance, "rstd");
    });
  }

  for (const shape of CASES.filter((c) => c.rows * c.width <= 4160)) {
    gpuTest(`rms_norm (${form}): gradients are central differences: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const actual = await runBoth(gpu, shape, given, form);
      // One row's loss does not depend on the others, so differences are computed row by row.
      const row = (n: number, of: Float64Array) => of.subarray(n * shape.width, (n + 1) * shape.width);
      for (let n = 0; n < Math.min(shape.rows, 4); n++) {
        const d_y = row(n, given.d_y);
        const loss = (x: Float64Array) =>
          rmsNormReference({ ...shape, rows: 1, gamma: given.gamma, x }).y
            .reduce((sum, y, i) => sum + y * d_y[i]!, 0);
        const numeric = centralDifferences(row(n, given.x), loss, 1e-4 * shape.scale);
        // Differences are accurate to about 1e-8 of the gradient's size, which grows with 1 / scale.
        const close = { relative: 1e-4, absolute: 1e-5 / shape.scale };
        expectClose(row(n, actual.d_x), numeric, close, "d_x");
        const sum = { relative: 1e-4, absolute: 1e-5 / shape.scale + 1e-7 };
        expectClose(row(n, actual.d_sum), numeric.map((v) => v + BEFORE), sum, "d_x, accumulated");
      }
    });
  }

  gpuTest(`rms_norm (${form}): rows do not depend on the number of rows`, async (gpu) => {
    const many = { name: "", rows: 65, width: 96, eps: 1e-5, scale: 1 };
    const given = inputs(many);
    const all = await runBoth(gpu, many, given, form);
    const last = { ...given, x: given.x.subarray(64 * 96), d_y: given.d_y.subarray(64 * 96) };
    const alone = await runBoth(gpu, { ...many, rows: 1 }, last, form);
    assert.deepEqual(alone.y, all.y.slice(64 * 96));
    assert.deepEqual(alone.d_x, all.d_x.slice(64 * 96));
  });
}

gpuTest("rms_norm names the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, { x: filled(0, 2, 3), v: filled(0, 2) }, (recorder, { x, v }) => {
    assert.throws(
      () => rmsNorm(recorder, { x, y: x, gamma: v, rstd: v }, 1e-5),
      new ShapeError("Cannot use gamma [2]: expected [3]"),
    );
    assert.throws(
      () => rmsNormBackward(recorder, { x, d_y: x, d_x: v, gamma: v, rstd: v }, { accumulate: true }),
      new ShapeError("Cannot use d_x [2]: expected [2, 3]"),
    );
  });
});
