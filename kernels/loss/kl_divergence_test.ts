import assert from "node:assert/strict";
import type { Gpu } from "../device.ts";
import { ShapeError } from "../shape.ts";
import { expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { tokenLogprobs, vocabularyPartials } from "./cross_entropy.ts";
import { klDivergence } from "./kl_divergence.ts";
import { klDivergenceReference } from "./kl_divergence_reference.ts";

/** Rows before the chunk: the arrays of all rows are longer than the chunk. */
const FIRST_ROW = 3;

interface KlCase {
  name: string;
  rows: number;
  vocabulary: number;
  /** A factor on every logit of p, and the size of the normal differences between q's and p's logits. */
  scale: number;
  change: number;
  /** Only every `kept`-th id is kept, the others are −inf in both. */
  kept: number;
}

const CASES: readonly KlCase[] = [
  { name: "a vocabulary of one", rows: 1, vocabulary: 1, scale: 1, change: 1, kept: 1 },
  { name: "odd, rows beyond a workgroup", rows: 67, vocabulary: 131, scale: 3, change: 0.5, kept: 1 },
  { name: "one small step", rows: 9, vocabulary: 1024, scale: 4, change: 0.01, kept: 1 },
  {
    name: "two independent policies",
    rows: 9,
    vocabulary: 1024,
    scale: 4,
    change: 4,
    kept: 1,
  },
  { name: "sure of one token each", rows: 5, vocabulary: 1024, scale: 20, change: 20, kept: 1 },
  { name: "masked but for every 97th", rows: 4, vocabulary: 1028, scale: 2, change: 0.3, kept: 97 },
  { name: "a large vocabulary", rows: 2, vocabulary: 151_936, scale: 2, change: 0.05, kept: 1 },
];

function inputs({ rows, vocabulary, scale, change, kept }: KlCase) {
  const masked = (i: number) => (i % vocabulary) % kept !== kept - 1;
  const p = randomNormal(1, rows * vocabulary).map((v, i) => masked(i) ? -Infinity : Math.fround(v * scale));
  const moved = randomNormal(2, rows * vocabulary);
  return { p_logits: p, q_logits: p.map((v, i) => Math.fround(v + change * moved[i]!)) };
}

async function divergence(gpu: Gpu, { rows, vocabulary }: KlCase, given: ReturnType<typeof inputs>) {
  const total = FIRST_ROW + rows;
  const actual = await run(gpu, {
    p_logits: [given.p_logits, [rows, vocabulary]],
    q_logits: [given.q_logits, [rows, vocabulary]],
    targets: [new Array(total).fill(0), [total], "u32"],
    partials: filled(NaN, vocabularyPartials(rows, vocabulary)),
    logprob: filled(NaN, total),
    entropy: filled(NaN, total),
    p_logsumexp: filled(NaN, total, 2),
    q_logsumexp: filled(NaN, total, 2),
    divergence: filled(NaN, total),
  }, (recorder, t) => {
    for (const side of ["p", "q"] as const) {
      const tensors = { ...t, logits: t[`${side}_logits`], logsumexp: t[`${side}_logsumexp`] };
      tokenLogprobs(recorder, tensors, FIRST_ROW);
    }
    klDivergence(recorder, t, FIRST_ROW);
  });
  assert.ok(actual.divergence.slice(0, FIRST_ROW).every(Number.isNaN), "other rows are untouched");
  return actual.divergence.slice(FIRST_ROW);
}

for (const shape of CASES) {
  gpuTest(`kl_divergence agrees with its f64 reference: ${shape.name}`, async (gpu) => {
    const given = inputs(shape);
    // A log-probability has an error of about 1e-6, which is amplified by d/KL: the smaller the step, the more.
    const close = { relative: 2e-6 + 4e-6 / Math.min(1, shape.change), absolute: 1e-8 };
    const expected = klDivergenceReference({ ...shape, ...given });
    expectClose(await divergence(gpu, shape, given), expected, close, "divergence");
  });
}

gpuTest("the divergence of a policy from itself is 0, and rows do not depend on each other", async (gpu) => {
  const shape = CASES[1]!, given = inputs(shape);
  const same = await divergence(gpu, shape, { ...given, q_logits: given.p_logits });
  assert.ok(same.every((kl) => kl === 0));
  const all = await divergence(gpu, shape, given);
  const last = Object.fromEntries(
    Object.entries(given).map(([name, values]) => [name, values.slice(-shape.vocabulary)]),
  ) as typeof given;
  assert.deepEqual(await divergence(gpu, { ...shape, rows: 1 }, last), all.slice(-1));
});

gpuTest("kl_divergence names the tensor whose shape is wrong", async (gpu) => {
  const given = {
    logits: filled(0, 2, 3),
    wrong: filled(0, 3, 2),
    logsumexp: filled(0, 4, 2),
    partials: filled(0, 8),
    divergence: filled(0, 4),
  };
  await run(gpu, given, (recorder, { logits, wrong, logsumexp, partials, divergence }) => {
    const tensors = {
      p_logits: logits,
      q_logits: logits,
      p_logsumexp: logsumexp,
      q_logsumexp: logsumexp,
      partials,
      divergence,
    };
    const refused = (change: Partial<typeof tensors>, message: string) =>
      assert.throws(() => klDivergence(recorder, { ...tensors, ...change }, 0), new ShapeError(message));
    refused({ q_logits: wrong }, "Cannot use q_logits [3, 2]: expected [2, 3]");
    refused({ q_logsumexp: wrong }, "Cannot use q_logsumexp [3, 2]: expected [4, 2]");
    assert.throws(() => klDivergence(recorder, tensors, 3), /rows 3 to 5 of 4/);
  });
});
