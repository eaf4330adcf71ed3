import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { type Activation, gatedActivation, gatedActivationBackward } from "./gated_activation.ts";
import { CASES, type GatedActivationCase } from "./gated_activation_cases.ts";
import { gatedActivationReference } from "./gated_activation_reference.ts";

/** The error of exp may be 3 + 2·|z| ulps (WGSL §15.7.4): up to 200 ulps, 1.2e-5, where exp(−z) matters. */
const tolerance = { relative: 2e-5, absolute: 1e-6 };

function inputs({ rows, width, scale }: GatedActivationCase) {
  return {
    gate: randomNormal(1, rows * width).map((v) => Math.fround(v * scale)),
    up: randomNormal(2, rows * width),
    d_h: randomNormal(3, rows * width),
  };
}

async function runBoth(
  gpu: Gpu,
  activation: Activation,
  { rows, width }: GatedActivationCase,
  given: ReturnType<typeof inputs>,
) {
  return await run(gpu, {
    gate: [given.gate, [rows, width]],
    up: [given.up, [rows, width]],
    d_h: [given.d_h, [rows, width]],
    h: filled(NaN, rows, width),
    d_gate: filled(NaN, rows, width),
    d_up: filled(NaN, rows, width),
  }, (recorder, t) => {
    gatedActivation(recorder, t, activation);
    gatedActivationBackward(recorder, t, activation);
  });
}

for (const activation of ["silu", "gelu_tanh"] as const) {
  for (const shape of CASES) {
    gpuTest(`${activation} agrees with its f64 reference: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const { h } = await runBoth(gpu, activation, shape, given);
      expectClose(h, gatedActivationReference(activation, given.gate, given.up), tolerance, "h");
    });
  }

  for (const shape of CASES.filter((c) => c.rows * c.width < 300)) {
    gpuTest(`${activation}'s gradients are central differences: ${shape.name}`, async (gpu) => {
      const given = inputs(shape);
      const { d_gate, d_up } = await runBoth(gpu, activation, shape, given);
      const loss = (gate: Float64Array, up: Float64Array) =>
        gatedActivationReference(activation, gate, up).reduce((sum, h, i) => sum + h * given.d_h[i]!, 0);
      const close = { relative: 1e-4, absolute: 1e-5 };
      expectClose(d_gate, centralDifferences(given.gate, (gate) => loss(gate, given.up)), close, "d_gate");
      expectClose(d_up, centralDifferences(given.up, (up) => loss(given.gate, up)), close, "d_up");
    });
  }

  gpuTest(`${activation}'s rows do not depend on the number of rows`, async (gpu) => {
    const many = { name: "", rows: 33, width: 20, scale: 1 };
    const given = inputs(many);
    const all = await runBoth(gpu, activation, many, given);
    const last = Object.fromEntries(
      Object.entries(given).map(([name, values]) => [name, values.slice(-20)]),
    ) as typeof given;
    const alone = await runBoth(gpu, activation, { ...many, rows: 1 }, last);
    for (const name of ["h", "d_gate", "d_up"] as const) assert.deepEqual(alone[name], all[name].slice(-20));
  });
}

gpuTest("gatedActivation names the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, { x: filled(0, 2, 3), wrong: filled(0, 3, 2) }, (recorder, { x, wrong }) => {
    assert.throws(
      () => gatedActivation(recorder, { gate: x, up: wrong, h: x }, "silu"),
      new ShapeError("Cannot use up [3, 2]: expected [2, 3]"),
    );
    assert.throws(
      () => gatedActivationBackward(recorder, { gate: x, up: x, d_h: x, d_gate: wrong, d_up: x }, "silu"),
      new ShapeError("Cannot use d_gate [3, 2]: expected [2, 3]"),
    );
  });
});
