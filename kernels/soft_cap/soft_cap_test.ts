import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { softCap } from "./soft_cap.ts";
import { softCapReference } from "./soft_cap_reference.ts";

for (
  const [name, rows, width, cap, size] of [
    ["one number", 1, 1, 30, 10],
    ["narrower than a vector", 3, 3, 30, 100],
    ["an item more than a workgroup", 5, 52, 0.5, 1],
    ["numbers far beyond the cap", 2, 64, 50, 1e6],
    ["numbers far below the cap", 2, 64, 50, 1e-3],
  ] as const
) {
  gpuTest(`softCap agrees with its f64 reference: ${name}`, async (gpu) => {
    const x = randomNormal(1, rows * width).map((value) => Math.fround(size * value));
    const actual = await run(gpu, { x: [x, [rows, width]] }, (recorder, t) => softCap(recorder, t, cap));
    // tanh is the quotient of two numbers that are accurate to 2^-24 of 1.
    expectClose(actual.x, softCapReference(x, cap), { relative: 1e-6, absolute: 2 ** -22 * cap }, "x");
    assert.ok(actual.x.every((value) => Math.abs(value) <= cap));
  });
}

gpuTest("softCap refuses other shapes and an invalid cap", async (gpu) => {
  await run(gpu, { x: filled(0, 4) }, (recorder, { x }) => {
    assert.throws(() => softCap(recorder, { x }, 30), new ShapeError("Cannot use x [4]: expected 2 axes"));
    assert.throws(() => softCap(recorder, { x: { ...x, shape: [1, 4] } }, 0), /a soft cap above 0/);
  });
});
