import assert from "node:assert/strict";
import { ShapeError } from "../shape.ts";
import { centralDifferences, expectClose, filled, gpuTest, randomNormal, run } from "../gpu_testing.ts";
import { PREFERENCE_LOSS_NAMES, PREFERENCE_LOSSES, type PreferenceLoss } from "../../core/preference_loss.ts";
import { preferenceLoss, type PreferenceLossOptions } from "./preference_loss.ts";
import {
  type PairReference,
  preferenceLossReference,
  preferenceScores,
} from "./preference_loss_reference.ts";

/** Rows of the chosen and of the rejected completion of each pair. */
const LENGTHS = [[1, 1], [3, 7], [40, 2], [64, 90]] as const;
/** Rows before, between and after the pairs, which belong to none. */
const GAP = 3;

/** Parameters that a loss without their term ignores. */
const optionsOf = (loss: PreferenceLoss): PreferenceLossOptions => (
  { loss, beta: PREFERENCE_LOSSES[loss].beta, gamma: 1, lambda: 0.1, normalizer: 5 }
);

/** Sums of up to 90 numbers in f32, and exp and log of them: a few units in the last place of the largest term. */
const tolerance = { relative: 2e-5, absolute: 1e-7 };

/** Pairs of log-probabilities as the kernel sees them, some with a large spread. */
function pairs(): PairReference[] {
  return LENGTHS.map(([chosen, rejected], i) => {
    const draw = (seed: number, count: number, shift: number) =>
      [...randomNormal(seed, count)].map((v) => Math.fround(-Math.abs(v) * (i === 2 ? 3 : 0.6) - shift));
    return {
      chosen: draw(10 * i, chosen, 0.05),
      rejected: draw(10 * i + 1, rejected, 0.4),
      reference_chosen: draw(10 * i + 2, chosen, 0.1),
      reference_rejected: draw(10 * i + 3, rejected, 0.3),
    };
  });
}

/** The first and last rows of each pair's completions. */
function rangesOf(all: readonly PairReference[]): { ranges: number[]; total: number } {
  let at = GAP;
  const ranges = all.flatMap(({ chosen, rejected }) => {
    const first = at, middle = first + chosen.length, end = middle + rejected.length;
    at = end + GAP;
    return [first, middle, end];
  });
  return { ranges, total: at };
}

for (const loss of PREFERENCE_LOSS_NAMES) {
  gpuTest(`${loss} agrees with its f64 reference and its central differences`, async (gpu) => {
    const all = pairs(), { ranges, total } = rangesOf(all), options = optionsOf(loss);
    const logprob = new Float64Array(total), reference_logprob = new Float64Array(total);
    all.forEach((pair, i) => {
      logprob.set([...pair.chosen, ...pair.rejected], ranges[3 * i]!);
      reference_logprob.set([...pair.reference_chosen, ...pair.reference_rejected], ranges[3 * i]!);
    });
    const out = await run(gpu, {
      logprob: [logprob, [total]],
      reference_logprob: [reference_logprob, [total]],
      ranges: [ranges, [all.length, 3], "u32"],
      g: filled(NaN, total),
      results: filled(NaN, 4, total),
    }, (recorder, t) => preferenceLoss(recorder, t, options));
    all.forEach((pair, i) => {
      const [first, middle, end] = ranges.slice(3 * i, 3 * i + 3) as [number, number, number];
      const losses = [...out.results.slice(first, end)];
      expectClose(
        losses,
        [preferenceLossReference(pair, options), ...losses.slice(1).fill(0)],
        tolerance,
        "loss",
      );
      const [chosen, rejected] = preferenceScores(pair, options);
      const scores = losses.map((_, r) => r < middle - first ? chosen : rejected);
      expectClose(out.results.slice(total + first, total + end), scores, tolerance, "score");
      const x = Float64Array.from([...pair.chosen, ...pair.rejected]), n = pair.chosen.length;
      const numeric = centralDifferences(
        x,
        (v) =>
          preferenceLossReference(
            { ...pair, chosen: [...v.slice(0, n)], rejected: [...v.slice(n)] },
            options,
          ),
      );
      expectClose(out.g.slice(first, end), numeric, { relative: 1e-4, absolute: 1e-7 }, "g");
    });
    const owned = new Set(all.flatMap((_, i) => {
      const [first, , end] = ranges.slice(3 * i, 3 * i + 3) as [number, number, number];
      return Array.from({ length: end - first }, (_, r) => first + r);
    }));
    const others = Array.from({ length: total }, (_, r) => r).filter((r) => !owned.has(r));
    assert.ok(others.every((r) => Number.isNaN(out.g[r]!)), "rows of no pair are untouched");
  });
}

gpuTest("far margins stay finite, and a certain completion has a bounded gradient", async (gpu) => {
  for (const loss of ["dpo", "orpo"] as const) {
    const rows = [[0, -300], [-300, 0]].map(([chosen, rejected]) => [chosen!, rejected!]).flat();
    const out = await run(gpu, {
      logprob: [rows, [4]],
      reference_logprob: [[0, 0, 0, 0], [4]],
      ranges: [[0, 1, 2, 2, 3, 4], [2, 3], "u32"],
      g: filled(NaN, 4),
      results: filled(NaN, 4, 4),
    }, (recorder, t) => preferenceLoss(recorder, t, { ...optionsOf(loss), beta: 1, normalizer: 1 }));
    assert.ok([...out.g, ...out.results].every(Number.isFinite), loss);
    if (loss === "dpo") expectClose([out.results[0]!, out.results[2]!], [0, 300], tolerance, "loss");
  }
});

gpuTest("ranges that are not triples are refused", async (gpu) => {
  const given = { v: filled(0, 4), pairs: filled(0, 2, 2), results: filled(0, 4, 4) };
  await run(gpu, given, (recorder, t) => {
    const tensors = { logprob: t.v, reference_logprob: null, ranges: t.pairs, g: t.v, results: t.results };
    assert.throws(
      () => preferenceLoss(recorder, tensors, optionsOf("simpo")),
      new ShapeError("Cannot use ranges [2, 2]: expected [2, 3]"),
    );
  });
});
