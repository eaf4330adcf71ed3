import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { sumOfSquares, sumPartials } from "./sum.ts";

const counts = [1, 3, 64, 1000, 4097, 1_048_640];

for (const count of counts) {
  gpuTest(`the sum of squares of ${count} elements agrees with f64`, async (gpu) => {
    const x = randomNormal(1, count, 0.25);
    const actual = await run(gpu, {
      x: [x, [count]],
      partials: filled(NaN, sumPartials(count)),
      squares: filled(NaN, 1),
    }, (recorder, t) => sumOfSquares(recorder, { ...t, out: t.squares }));
    const squares = x.reduce((s, v) => s + v * v, 0);
    // Each of at most 64 + 256 + 64 successive additions of positive numbers rounds to 6e-8 of the sum so far.
    expectClose(actual.squares, [squares], { relative: 2e-6, absolute: 0 }, "squares");
  });
}

gpuTest("a sum names the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, { x: filled(0, 2), partials: filled(0, 64) }, (recorder, { x, partials }) => {
    assert.throws(
      () => sumOfSquares(recorder, { x, partials, out: x }),
      new ShapeError("Cannot use out [2]: expected [1]"),
    );
  });
});
