import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { sumOfSquares, sumPartials } from "../sum/sum.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { adamw, type AdamwOptions, parseAdamwStats } from "./adamw.ts";
import { adamwReference, type AdamwState } from "./adamw_reference.ts";

const usual: AdamwOptions = {
  lr: 1e-2,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0.01,
  max_grad_norm: 1,
  step: 1,
};

async function runStep(gpu: Gpu, { p, m, v }: AdamwState, g: ArrayLike<number>, options: AdamwOptions) {
  const count = p.length;
  const given = {
    p: [p, [count]],
    g: [g, [count]],
    m: [m, [count]],
    v: [v, [count]],
    partials: filled(NaN, sumPartials(count)),
    norm_sq: filled(NaN, 1),
    stats: [[7, 7, 7, 7], [4], "u32"],
  } as const;
  const out = await run(gpu, given, (recorder, t) => {
    sumOfSquares(recorder, { x: [t.g], partials: t.partials, out: t.norm_sq });
    adamw(recorder, { ...t, parts: [t] }, options);
  });
  return { ...out, told: parseAdamwStats(Uint32Array.from(out.stats)) };
}

const fresh = (p: Float64Array): AdamwState => ({
  p: p.slice(),
  m: new Float64Array(p.length),
  v: new Float64Array(p.length),
});

Deno.test("the reference agrees with two steps computed by hand", () => {
  const state = fresh(Float64Array.of(1)), options = { ...usual, lr: 0.1, eps: 0, max_grad_norm: 0 };
  adamwReference(state, Float64Array.of(2), options);
  // m̂ = 2 and v̂ = 4, so the step is lr · 2/2, and the decay 0.1 · 0.01 of 1.
  assert.ok(Math.abs(state.p[0]! - 0.899) < 1e-12);
  adamwReference(state, Float64Array.of(-1), { ...options, step: 2 });
  // m̂ = 0.08 / 0.19 and v̂ = 0.004996 / 0.001999.
  const expected = 0.899 - 0.000899 - 0.1 * (0.08 / 0.19) / Math.sqrt(0.004996 / 0.001999);
  assert.ok(Math.abs(state.p[0]! - expected) < 1e-12);
});

for (const count of [1, 7, 1000, 300_000]) {
  gpuTest(`adamw follows its f64 reference over three steps of ${count} parameters`, async (gpu) => {
    const reference = fresh(randomNormal(1, count));
    let actual: AdamwState = fresh(reference.p);
    for (let step = 1; step <= 3; step++) {
      const g = randomNormal(10 + step, count).map((x) => Math.fround(x * (step === 2 ? 1e-4 : 3)));
      const options = { ...usual, step };
      const out = await runStep(gpu, actual, g, options);
      const { factor, eps_dominated } = adamwReference(reference, g, options);
      actual = out;
      // The norm, a root and a quotient of f32: a step of 1e-2 has an error of about 1e-8.
      expectClose(out.p, reference.p, { relative: 2e-7, absolute: 5e-8 }, "p");
      // The two addends of m may cancel; each is at most 0.1 and rounds to 6e-8 of itself.
      expectClose(out.m, reference.m, { relative: 2e-6, absolute: 1e-8 }, "m");
      expectClose(out.v, reference.v, { relative: 4e-6, absolute: 1e-14 }, "v");
      assert.equal(out.told.skipped, false);
      assert.equal(out.told.clipped, factor < 1);
      assert.equal(out.told.eps_dominated, eps_dominated);
      expectClose([out.told.clip_factor], [factor], { relative: 2e-6, absolute: 0 }, "factor");
    }
  });
}

gpuTest("adamw's first step is lr in size, whatever the gradient's scale", async (gpu) => {
  const p = new Float64Array(64), g = randomNormal(1, 64).map((x) => Math.fround(x * 1000 + Math.sign(x)));
  const options = { ...usual, weight_decay: 0, max_grad_norm: 0 };
  const out = await runStep(gpu, fresh(p), g, options);
  expectClose(out.p, g.map((x) => -options.lr * Math.sign(x)), { relative: 1e-6, absolute: 0 }, "p");
  assert.deepEqual(out.told, { skipped: false, eps_dominated: 0, clipped: false, clip_factor: 1 });
});

gpuTest("adamw counts the parameters whose second moment is below eps", async (gpu) => {
  const g = Float64Array.from({ length: 103 }, (_, i) => i % 3 === 0 ? 0 : i % 3 === 1 ? 1e-5 : 1);
  const out = await runStep(gpu, fresh(randomNormal(1, 103)), g, { ...usual, eps: 1e-3, max_grad_norm: 0 });
  assert.equal(out.told.eps_dominated, g.filter((x) => x < 1e-3).length);
});

for (const bad of [NaN, Infinity, -Infinity, 3e38]) {
  gpuTest(`adamw changes nothing and says so when a gradient is ${bad}`, async (gpu) => {
    const state = { p: randomNormal(1, 9), m: randomNormal(2, 9), v: randomNormal(3, 9, 9) };
    const out = await runStep(gpu, state, randomNormal(4, 9).with(5, bad), usual);
    for (const name of ["p", "m", "v"] as const) assert.deepEqual(out[name], state[name]);
    assert.equal(out.told.skipped, true);
    assert.equal(out.told.eps_dominated, 0);
  });
}

gpuTest("adamw names the tensor whose shape is wrong", async (gpu) => {
  await run(gpu, { p: filled(0, 4), g: filled(0, 3), one: filled(0, 1) }, (recorder, { p, g, one }) => {
    assert.throws(
      () => adamw(recorder, { parts: [{ p, g, m: p, v: p }], norm_sq: one, stats: p }, usual),
      new ShapeError("Cannot use g [3]: expected [4]"),
    );
  });
});
