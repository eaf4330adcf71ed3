import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { softCapReference } from "../soft_cap/soft_cap_reference.ts";
import type { KernelForm } from "../variant.ts";
import { crossEntropyBackward, tokenLogprobs, vocabularyPartials } from "./cross_entropy.ts";
import { CASES, type CrossEntropyCase } from "./cross_entropy_cases.ts";
import { crossEntropyReference } from "./cross_entropy_reference.ts";

/** Rows before the chunk: the arrays of all rows are longer than the chunk. */
const FIRST_ROW = 5;

function inputs({ rows, vocabulary, scale, kept }: CrossEntropyCase) {
  const targets = Array.from({ length: rows }, (_, n) => (n * 7919 + 5) % vocabulary);
  const logits = randomNormal(1, rows * vocabulary).map((v, i) => {
    const id = i % vocabulary, target = targets[Math.floor(i / vocabulary)];
    return id === target || id % kept === kept - 1 ? Math.fround(v * scale) : -Infinity;
  });
  return { logits, targets, g: randomNormal(2, rows) };
}

async function runBoth(
  gpu: Gpu,
  { rows, vocabulary }: CrossEntropyCase,
  given: ReturnType<typeof inputs>,
  { soft_cap = null, form }: { soft_cap?: number | null; form?: KernelForm } = {},
) {
  const total = FIRST_ROW + rows;
  const pad = (values: ArrayLike<number>) => [...new Array(FIRST_ROW).fill(0), ...Array.from(values)];
  return await run(gpu, {
    logits: [given.logits, [rows, vocabulary]],
    d_logits: [given.logits, [rows, vocabulary]],
    targets: [pad(given.targets), [total], "u32"],
    g: [pad(given.g), [total]],
    partials: filled(NaN, vocabularyPartials(rows, vocabulary)),
    logprob: filled(NaN, total),
    entropy: filled(NaN, total),
    logsumexp: filled(NaN, total, 2),
  }, (recorder, t) => {
    tokenLogprobs(recorder, t, FIRST_ROW, form);
    crossEntropyBackward(recorder, { ...t, logits: t.d_logits }, FIRST_ROW, soft_cap);
  });
}

for (const shape of CASES) {
  gpuTest(`cross_entropy agrees with its f64 reference: ${shape.name}`, async (gpu) => {
    const given = inputs(shape);
    const actual = await runBoth(gpu, shape, given);
    const expected = crossEntropyReference({ ...shape, ...given });
    // A sum of exponentials is accurate to 1e-6, a difference of logits to an ulp of them, 6e-8 of their size.
    const close = { relative: 1e-6, absolute: 2e-6 + 1e-7 * shape.scale };
    for (const name of ["logprob", "entropy"] as const) {
      expectClose(actual[name].slice(FIRST_ROW), expected[name], close, name);
      assert.ok(actual[name].slice(0, FIRST_ROW).every(Number.isNaN), `${name} of other rows is untouched`);
    }
    expectClose(actual.logsumexp.slice(2 * FIRST_ROW), expected.logsumexp, close, "logsumexp");
    const p = given.logits.map((z, i) => {
      const n = Math.floor(i / shape.vocabulary);
      return Math.exp(z - expected.logsumexp[2 * n]! - expected.logsumexp[2 * n + 1]!);
    });
    const d_logits = p.map((p, i) => {
      const n = Math.floor(i / shape.vocabulary);
      return given.g[n]! * ((i % shape.vocabulary === given.targets[n] ? 1 : 0) - p);
    });
    expectClose(actual.d_logits, d_logits, { relative: 2e-5, absolute: 1e-6 }, "d_logits");
  });
}

gpuTest(
  "cross_entropy's gradient is the central difference of the reference's log-probabilities",
  async (gpu) => {
    for (const shape of CASES.filter((c) => c.rows * c.vocabulary < 10)) {
      const given = inputs(shape);
      const { d_logits } = await runBoth(gpu, shape, given);
      const loss = (logits: Float64Array) =>
        crossEntropyReference({ ...shape, ...given, logits }).logprob.reduce(
          (s, v, n) => s + v * given.g[n]!,
          0,
        );
      const numeric = centralDifferences(given.logits, loss);
      expectClose(d_logits, numeric, { relative: 1e-4, absolute: 1e-6 }, "d_logits");
    }
  },
);

gpuTest(
  "a soft cap's gradient is the central difference of log-probabilities of capped logits",
  async (gpu) => {
    const cap = 0.7;
    for (const shape of CASES.filter((c) => c.rows * c.vocabulary < 10)) {
      const { logits, ...given } = inputs(shape);
      const capped = Float64Array.from(softCapReference(logits, cap));
      const { d_logits } = await runBoth(gpu, shape, { ...given, logits: capped }, { soft_cap: cap });
      const loss = (x: Float64Array) =>
        crossEntropyReference({ ...shape, ...given, logits: softCapReference(x, cap) }).logprob.reduce(
          (s, v, n) => s + v * given.g[n]!,
          0,
        );
      expectClose(d_logits, centralDifferences(logits, loss), { relative: 1e-4, absolute: 1e-6 }, "d_logits");
    }
  },
);

gpuTest("cross_entropy's rows do not depend on the number of rows", async (gpu) => {
  const many = CASES.find((c) => c.name === "odd, rows beyond a workgroup")!, V = many.vocabulary;
  const given = inputs(many);
  const all = await runBoth(gpu, many, given);
  const last = { logits: given.logits.slice(-V), targets: given.targets.slice(-1), g: given.g.slice(-1) };
  const alone = await runBoth(gpu, { ...many, rows: 1 }, last);
  assert.deepEqual(alone.logprob.slice(-1), all.logprob.slice(-1));
  assert.deepEqual(alone.entropy.slice(-1), all.entropy.slice(-1));
  assert.deepEqual(alone.d_logits, all.d_logits.slice(-V));
});

gpuTest("cross_entropy's bits are the same where a workgroup has a row", async (gpu) => {
  const wide = {
    name: "more rows than an axis has workgroups",
    rows: 65_537,
    vocabulary: 4,
    scale: 1,
    kept: 1,
  };
  for (const shape of [...CASES, wide]) {
    const given = inputs(shape), lanes = await runBoth(gpu, shape, given, { form: "lanes" });
    const tiles = await runBoth(gpu, shape, given, { form: "tiles" });
    for (const name of ["logprob", "entropy", "logsumexp"] as const) {
      assert.deepEqual(tiles[name], lanes[name], `${shape.name}: ${name}`);
    }
  }
});

gpuTest("a row with coefficient 0 has a gradient of zeros", async (gpu) => {
  const shape = CASES.find((c) => c.name === "masked but for every 97th")!;
  const { d_logits } = await runBoth(gpu, shape, { ...inputs(shape), g: new Float64Array(shape.rows) });
  assert.ok(d_logits.every((v) => v === 0));
});

gpuTest("cross_entropy names the tensor whose shape is wrong", async (gpu) => {
  const given = {
    logits: filled(0, 2, 3),
    rows: filled(0, 4),
    wrong: filled(0, 3),
    logsumexp: filled(0, 4, 2),
  };
  await run(gpu, { ...given, partials: filled(0, 8) }, (recorder, t) => {
    const tensors = { ...t, targets: t.rows, logprob: t.rows, entropy: t.wrong };
    assert.throws(
      () => tokenLogprobs(recorder, tensors, 0),
      new ShapeError("Cannot use entropy [3]: expected [4]"),
    );
    assert.throws(
      () => crossEntropyBackward(recorder, { ...tensors, g: t.wrong }, 0),
      new ShapeError("Cannot use g [3]: expected [4]"),
    );
    assert.throws(
      () => tokenLogprobs(recorder, { ...tensors, entropy: t.rows }, 3),
      /rows 3 to 5 of 4/,
    );
  });
});
