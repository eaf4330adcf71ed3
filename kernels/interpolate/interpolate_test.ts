import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { interpolate } from "./interpolate.ts";

/** One rounding of the difference, one of the product, one of the sum: 1.5 ulps of the largest operand. */
const tolerance = { relative: 1e-6, absolute: 1e-6 };

for (const count of [1, 7, 64, 4 * 65]) {
  for (const scale of [1, 0.5, 0.3]) {
    gpuTest(`interpolate moves ${scale} of the way over ${count} elements`, async (gpu) => {
      const origin = randomNormal(1, count), x = randomNormal(2, count);
      const actual = await run(
        gpu,
        { origin: [origin, [count]], x: [x, [count]] },
        (recorder, t) => interpolate(recorder, t, scale),
      );
      expectClose(actual.x, origin.map((from, i) => from + scale * (x[i]! - from)), tolerance, "x");
      assert.deepEqual(actual.origin, origin);
    });
  }
}

gpuTest("interpolate at 0 copies every bit, over NaN and infinities too", async (gpu) => {
  const origin = randomNormal(1, 9);
  const given = {
    origin: [origin, [9]],
    x: [Float64Array.from([NaN, Infinity, -Infinity, 1e38, -1e38, 0, 1, 2, 3]), [9]],
  } as const;
  const { x } = await run(gpu, given, (recorder, t) => interpolate(recorder, t, 0));
  assert.deepEqual(x, origin);
});

gpuTest("interpolate works beyond one axis of the grid", async (gpu) => {
  const count = 65_535 * 64 + 65;
  const given = { origin: filled(2, count), x: filled(4, count) };
  const { x } = await run(gpu, given, (recorder, t) => interpolate(recorder, t, 0.5));
  assert.equal(x.every((v) => v === 3), true);
});

gpuTest("interpolate names a shape that is wrong, and a scale outside 0 to 1", async (gpu) => {
  await run(gpu, { origin: filled(0, 4), x: filled(0, 5) }, (recorder, { origin, x }) => {
    const error = new ShapeError("Cannot use x [5]: expected [4]");
    assert.throws(() => interpolate(recorder, { origin, x }, 0.5), error);
    for (const scale of [-0.1, 1.1, NaN]) {
      assert.throws(() => interpolate(recorder, { origin: x, x }, scale), /a point between two tensors/);
    }
  });
});
