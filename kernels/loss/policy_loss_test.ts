import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { policyLoss, sequenceRatio, sftLoss } from "./policy_loss.ts";
import {
  policyLossReference,
  type PolicyRow,
  policyRowReference,
  type PolicyScalars,
} from "./policy_loss_reference.ts";

const scalars: PolicyScalars = { clip_low: 0.2, clip_high: 0.28, kl_coefficient: 0.05, normalizer: 640 };

/** The error of exp may be 3 + 2·20 ulps at the clamp; sums and products add a few more. */
const tolerance = { relative: 1e-5, absolute: 1e-9 };
const STEP = 1e-6;

/** Ratios inside and outside both ends of the clip range, each with positive, negative and zero advantages. */
function awkwardRows(): PolicyRow[] {
  const rows: PolicyRow[] = [];
  for (const log_ratio of [0, 1e-3, -1e-3, 0.24, 0.26, -0.21, -0.24, 3, -3, 19, -19]) {
    for (const advantage of [1.5, -0.5, 0]) {
      for (const d of [0, 1e-4, -0.3, 0.6, -4, 12]) {
        const logprob = -2 - 0.125 * rows.length % 3;
        rows.push({
          logprob,
          log_ratio,
          reference_logprob: logprob + d,
          advantage,
          weight: rows.length % 5 === 4 ? 0 : 1.25,
        });
      }
    }
  }
  // The kernel sees f32, and the reference must see the same numbers.
  return rows.map((row) => {
    const logprob = Math.fround(row.logprob), reference_logprob = Math.fround(row.reference_logprob);
    const old = Math.fround(logprob - row.log_ratio);
    return { ...row, logprob, reference_logprob, log_ratio: logprob - old };
  });
}

const column = (rows: readonly PolicyRow[], name: keyof PolicyRow) =>
  Float64Array.from(rows, (row) => row[name]);

async function runPolicy(gpu: Gpu, rows: readonly PolicyRow[], form: "token" | "sequence" | "none") {
  const total = rows.length + 3, pad = (values: Float64Array) => [0, 0, 0, ...values];
  const { g, results } = await run(gpu, {
    logprob: [pad(column(rows, "logprob")), [total]],
    old_logprob: [pad(column(rows, "logprob").map((v, r) => v - rows[r]!.log_ratio)), [total]],
    log_ratio: [pad(column(rows, "log_ratio")), [total]],
    reference_logprob: [pad(column(rows, "reference_logprob")), [total]],
    advantage: [pad(column(rows, "advantage")), [total]],
    weight: [pad(column(rows, "weight")), [total]],
    g: filled(NaN, total),
    results: filled(NaN, 4, total),
  }, (recorder, t) => {
    const ratio = form === "none"
      ? null
      : form === "token"
      ? { old_logprob: t.old_logprob }
      : { log_ratio: t.log_ratio };
    const reference_logprob = form === "none" ? null : t.reference_logprob;
    const options = { ...scalars, first_row: 3, rows: rows.length };
    policyLoss(recorder, { ...t, ratio, reference_logprob }, options);
  });
  assert.ok([...g.slice(0, 3), ...results.slice(0, 3)].every(Number.isNaN), "other rows are untouched");
  const result = (i: number) => results.slice(i * total + 3, (i + 1) * total);
  return { g: g.slice(3), loss: result(0), ratio: result(1), clipped: result(2), k3: result(3) };
}

for (const form of ["token", "sequence"] as const) {
  gpuTest(
    `policy weights (${form}) agree with the f64 reference and its central differences`,
    async (gpu) => {
      const rows = awkwardRows();
      const actual = await runPolicy(gpu, rows, form);
      const told = rows.map((row) => policyRowReference(row, scalars));
      assert.deepEqual(
        [...new Set(told.map((row) => row.clipped))].sort(),
        [-1, 0, 1],
        "both sides are clipped",
      );
      expectClose(actual.ratio, told.map((row) => row.ratio), tolerance, "ratio");
      assert.deepEqual([...actual.clipped], told.map((row) => row.clipped));
      // d is a difference of two f32 log-probabilities near 4: near 0 it is exact.
      expectClose(actual.k3, told.map((row) => row.k3), tolerance, "k3");
      const loss = rows.map((row, r) => policyLossReference(row, scalars, told[r]!.ratio));
      expectClose(actual.loss, loss, { relative: 1e-5, absolute: 1e-8 }, "loss");
      const numeric = rows.map((row, r) => {
        // The ratio's derivative by the log-probability is the ratio, for the token and for GSPO-token.
        const at = (step: number) => {
          const moved = { ...row, logprob: row.logprob + step, log_ratio: row.log_ratio + step };
          return policyLossReference(moved, scalars, told[r]!.ratio);
        };
        return (at(STEP) - at(-STEP)) / (2 * STEP);
      });
      // Differences of a loss of size |loss| are accurate to 1e-16 · |loss| / STEP, and to STEP² of the third
      // derivative.
      expectClose(actual.g, numeric, { relative: 2e-5, absolute: 1e-8 }, "g");
    },
  );
}

gpuTest("without an old policy the ratio is 1 and without a reference the KL term is 0", async (gpu) => {
  const rows = awkwardRows();
  const actual = await runPolicy(gpu, rows, "none");
  assert.ok(actual.ratio.every((v) => v === 1) && actual.k3.every((v) => v === 0));
  const expected = rows.map((row) => -row.weight * row.advantage / scalars.normalizer);
  expectClose(actual.g, expected, tolerance, "g");
  expectClose(actual.loss, expected, tolerance, "loss");
});

gpuTest("exponents beyond 20 are clamped to 20", async (gpu) => {
  const row = { logprob: -1, log_ratio: 30, reference_logprob: 29, advantage: -1, weight: 1 };
  const actual = await runPolicy(gpu, [row, { ...row, log_ratio: -30, reference_logprob: -31 }], "sequence");
  expectClose(actual.ratio, [Math.exp(20), Math.exp(-20)], tolerance, "ratio");
  expectClose(actual.k3, [Math.exp(20) - 21, Math.exp(-20) + 19], tolerance, "k3");
});

gpuTest("a trajectory's rows share the mean of their log ratios", async (gpu) => {
  const total = 200, logprob = randomNormal(1, total), old_logprob = randomNormal(2, total);
  const ranges = [[0, 1], [1, 70], [73, 200]] as const;
  const { log_ratio } = await run(gpu, {
    logprob: [logprob, [total]],
    old_logprob: [old_logprob, [total]],
    ranges: [ranges.flat(), [3, 2], "u32"],
    log_ratio: filled(NaN, total),
  }, (recorder, t) => sequenceRatio(recorder, t));
  for (const [start, end] of ranges) {
    const rows = logprob.slice(start, end).map((v, i) => v - old_logprob[start + i]!);
    const mean = rows.reduce((s, v) => s + v, 0) / rows.length;
    expectClose(
      log_ratio.slice(start, end),
      rows.fill(mean),
      { relative: 1e-5, absolute: 1e-6 },
      "log_ratio",
    );
  }
  assert.ok(log_ratio.slice(70, 73).every(Number.isNaN), "rows of no trajectory are untouched");
});

gpuTest(
  "SFT's g is the derivative of the weighted mean, and the losses add up to it",
  async (gpu) => {
    const total = 70,
      logprob = randomNormal(1, total, -2),
      weight = logprob.map((_, r) => r % 3 === 0 ? 0 : 1);
    const normalizer = weight.reduce((s, v) => s + v, 0);
    const actual = await run(gpu, {
      logprob: [logprob, [total]],
      weight: [weight, [total]],
      g: filled(NaN, total),
      results: filled(NaN, 4, total),
    }, (recorder, t) => {
      sftLoss(recorder, t, { first_row: 0, rows: 64, normalizer });
      sftLoss(recorder, t, { first_row: 64, rows: 6, normalizer });
    });
    expectClose(actual.g, weight.map((w) => -w / normalizer), { relative: 1e-6, absolute: 0 }, "g");
    const mean = -logprob.reduce((s, v, r) => s + v * weight[r]!, 0) / normalizer;
    const loss = actual.results.subarray(0, total).reduce((s, v) => s + v, 0);
    expectClose([loss], [mean], { relative: 1e-6, absolute: 1e-6 }, "loss");
    assert.deepEqual([...actual.results.slice(total)], [
      ...weight.map(() => 1),
      ...weight.map(() => 0),
      ...weight.map(() => 0),
    ]);
  },
);

gpuTest("policy weights name the tensor whose shape is wrong", async (gpu) => {
  await run(
    gpu,
    { v: filled(0, 4), wrong: filled(0, 3), results: filled(0, 4, 4) },
    (recorder, { v, wrong, results }) => {
      const options = { ...scalars, first_row: 0, rows: 4 };
      const tensors = {
        logprob: v,
        ratio: null,
        reference_logprob: null,
        advantage: v,
        weight: v,
        g: wrong,
        results,
      };
      assert.throws(
        () => policyLoss(recorder, { ...tensors, advantage: wrong }, options),
        new ShapeError("Cannot use advantage [3]: expected [4]"),
      );
      assert.throws(
        () => policyLoss(recorder, { ...tensors, g: v }, { ...options, first_row: 1 }),
        /rows 1 to 5 of 4/,
      );
      assert.throws(
        () => sftLoss(recorder, { logprob: v, weight: v, g: wrong, results }, options),
        new ShapeError("Cannot use g [3]: expected [4]"),
      );
      assert.throws(
        () => sequenceRatio(recorder, { logprob: v, old_logprob: v, log_ratio: v, ranges: results }),
        new ShapeError("Cannot use ranges [4, 4]: expected [4, 2]"),
      );
    },
  );
});
