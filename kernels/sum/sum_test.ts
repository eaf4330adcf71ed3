import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
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
    }, (recorder, t) => sumOfSquares(recorder, { ...t, x: [t.x], out: t.squares }));
    const squares = x.reduce((s, v) => s + v * v, 0);
    // Each of at most 64 + 256 + 64 successive additions of positive numbers rounds to 6e-8 of the sum so far.
    expectClose(actual.squares, [squares], { relative: 2e-6, absolute: 0 }, "squares");
  });
}

gpuTest("the sum of squares of several tensors agrees with f64", async (gpu) => {
  const counts = [64, 131_072, 1, 2_097_152];
  const tensors = Object.fromEntries(
    counts.map((count, i) => [`x${i}`, [randomNormal(i, count, 0.25), [count]] as const]),
  );
  const given = { ...tensors, partials: filled(NaN, sumPartials(...counts)), squares: filled(NaN, 1) };
  const { squares } = await run(gpu, given, (recorder, t) => {
    const { partials, squares: out, ...x } = t;
    sumOfSquares(recorder, { x: Object.values(x) as Tensor[], partials: partials!, out: out! });
  });
  const expected = Object.values(tensors).reduce((sum, [x]) => x.reduce((s, v) => s + v * v, sum), 0);
  // Each of at most 128 + 256 + 64 successive additions of positive numbers rounds to 6e-8 of the sum so far.
  expectClose(squares!, [expected], { relative: 2e-6, absolute: 0 }, "squares");
});

gpuTest("a sum names the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, { x: filled(0, 2), partials: filled(0, 64) }, (recorder, { x, partials }) => {
    assert.throws(
      () => sumOfSquares(recorder, { x: [x], partials, out: x }),
      new ShapeError("Cannot use out [2]: expected [1]"),
    );
  });
});
