import assert from "node:assert/strict";
import { initialState } from "../directory/checkpoint.ts";
import { endEvent, fallWarning } from "../process/end_event.ts";
import type { LiveRun } from "../process/live_run.ts";
import { testConfig } from "../config_testing.ts";
import {
  evaluationDifference,
  type EvaluationRecord,
  evaluationRecord,
  isWorseBeyondChance,
} from "./evaluation_record.ts";
import type { EndEvent } from "./event.ts";
import { evenExample, ratio } from "./paired_comparison.ts";

function evaluated(update: number, rates: number[], metric: EvaluationRecord["metric"] = "eval/pass_rate") {
  const value = rates.reduce((a, b) => a + b) / rates.length;
  const record: EvaluationRecord = {
    update,
    metric,
    value,
    pass_rate: metric === "eval/loss"
      ? null
      : { rate: value, low: value - 0.1, high: value + 0.1, n: 40, attempts: 40 },
    by_example: Object.fromEntries(rates.map((rate, i) => [`example-${i}`, evenExample(rate)])),
  };
  return record;
}

/** Forty examples: the first `count` have `one` and the others `other`. */
const forty = (count: number, one = 1, other = 0) =>
  Array.from({ length: 40 }, (_, i) => i < count ? one : other);

Deno.test("a difference is over the common examples, in pairs", () => {
  const rates = [0, 0.5, 1, 0, 0.25, 0.5, 1];
  const earlier = evaluated(0, rates), later = evaluated(5, [0.25, 0.75, 0.25, 1, 0.25, 0.25, 1, 1]);
  const difference = evaluationDifference(earlier, later, { seed: 1 })!;
  assert.ok(Math.abs(difference.difference - (0.25 + 0.25 - 0.75 + 1 - 0.25) / 7) < 1e-12);
  assert.equal(difference.n, 7);
  assert.ok(difference.low! < difference.difference && difference.difference < difference.high!);
  assert.equal(evaluationDifference(earlier, { ...later, by_example: {} }, { seed: 1 }), null);
});

/** Rows of held-out data: the number of tokens of each, and their mean loss. */
function scored(update: number, rows: readonly (readonly [tokens: number, mean: number])[]) {
  const by_example = Object.fromEntries(
    rows.map(([weight, mean], i) => [i + 1, { sum: weight * mean, weight }]),
  );
  const loss = ratio(Object.values(by_example));
  return evaluationRecord(update, "eval/loss", { pass_rate: null, loss, by_example });
}

Deno.test("with the same rows the difference is that of the losses, even if most rows differ the other way", () => {
  // Long rows get better by 0.2, twice as many short ones worse by 0.4.
  const before = scored(0, Array.from({ length: 12 }, (_, i) => i % 3 === 0 ? [100, 2.1] : [2, 1]));
  const after = scored(5, Array.from({ length: 12 }, (_, i) => i % 3 === 0 ? [100, 1.9] : [2, 1.4]));
  const difference = evaluationDifference(before, after, { seed: 1 })!;
  assert.equal(difference.difference, after.value - before.value);
  assert.ok(difference.difference < -0.1 && difference.high! < 0);
  assert.equal(isWorseBeyondChance(before, after, { seed: 1, evaluations: 2 }), false);
});

Deno.test("a fall is distinguished from chance and from the choice of the best of many", () => {
  const best = evaluated(10, forty(30));
  const fell = (rates: number[], evaluations = 3) =>
    isWorseBeyondChance(best, evaluated(20, rates), { seed: 1, evaluations });
  assert.equal(fell(forty(15)), true);
  assert.equal(fell(forty(30)), false);
  assert.equal(fell(forty(32)), false);
  // Six of forty lost: significant alone (one-sided sign test: p = 1/64), but not as the worst of a hundred
  // comparisons.
  assert.equal(fell(forty(24), 2), true);
  assert.equal(fell(forty(24), 101), false);
  assert.equal(isWorseBeyondChance(best, best, { seed: 1, evaluations: 3 }), false);
});

Deno.test("few examples cannot show a fall: n of them are all worse by chance once in 2^n", () => {
  const fell = (n: number, evaluations = 2) => {
    const losses = Array.from({ length: n }, (_, i) => 1 + i / 10);
    const later = losses.map((loss, i) => loss + 0.25 + i / 100);
    const [best, latest] = [losses, later].map((of, k) => evaluated(10 + 10 * k, of, "eval/loss"));
    return isWorseBeyondChance(best!, latest!, { seed: 1, evaluations });
  };
  // 2^-5 > 0.025 > 2^-6; among ten comparisons 2^-8 > 0.0025 > 2^-9.
  assert.deepEqual([1, 3, 5, 6].map((n) => fell(n)), [false, false, false, true]);
  assert.deepEqual([3, 8, 9].map((n) => fell(n, 11)), [false, false, true]);
});

Deno.test("a certain fall is detected among any number of evaluations", () => {
  const best = evaluated(10, forty(40)), latest = evaluated(20, forty(0));
  assert.equal(isWorseBeyondChance(best, latest, { seed: 1, evaluations: 1001 }), true);
});

Deno.test("a difference that is the same everywhere is not certain", () => {
  const none = evaluated(0, forty(0)), all = evaluated(5, forty(40));
  const same = evaluationDifference(none, evaluated(5, forty(0)), { seed: 1 })!;
  assert.ok(same.low! < -0.05 && same.high! > 0.05);
  const gained = evaluationDifference(none, all, { seed: 1 })!;
  assert.ok(gained.low! > 0.8 && gained.low! < 0.9 && gained.high === 1);
  assert.equal(isWorseBeyondChance(all, evaluated(10, forty(0)), { seed: 1, evaluations: 3 }), true);
});

Deno.test("the larger loss is worse", () => {
  const best = evaluated(10, forty(20, 1.5, 2), "eval/loss");
  const by = (more: number) =>
    evaluated(20, forty(20, 1.5, 2).map((x, i) => x + more * (1 + i % 3)), "eval/loss");
  const fell = (more: number) => isWorseBeyondChance(best, by(more), { seed: 1, evaluations: 2 });
  assert.deepEqual([fell(0.1), fell(-0.1)], [true, false]);
});

function ended(adapter: "last" | "best", after: EvaluationRecord) {
  const config = testConfig("/run", '[evaluation]\ndata = "heldout.jsonl"\n');
  config.output = { path: "/out/a.gguf", adapter };
  const state = {
    ...initialState(),
    update: 20,
    evaluations: 3,
    before: evaluated(0, forty(10)),
    best: evaluated(10, forty(30)),
    latest: after,
  };
  return endEvent({ config, state } as unknown as LiveRun, "completed");
}

Deno.test("the end names the best evaluated update, and both adapters by their names", () => {
  const event = ended("last", evaluated(20, forty(12)));
  const { evaluation } = event;
  assert.deepEqual(
    [evaluation!.before, evaluation!.best, evaluation!.after].map(({ update, value }) => [update, value]),
    [[0, 0.25], [10, 0.75], [20, 0.3]],
  );
  assert.equal(evaluation!.difference!.n, 40);
  assert.ok(Math.abs(evaluation!.difference!.difference - 0.05) < 1e-12);
  assert.deepEqual([event.adapter, event.adapter_update], ["/out/a.gguf", 20]);
  assert.deepEqual(event.other_adapter, { which: "best", update: 10, path: "/out/a_best.gguf" });
  const chosen = ended("best", evaluated(20, forty(12)));
  assert.deepEqual([chosen.adapter, chosen.adapter_update], ["/out/a.gguf", 10]);
  assert.deepEqual(chosen.other_adapter, { which: "last", update: 20, path: "/out/a_last.gguf" });
});

const fall = (event: EndEvent, more = "") =>
  fallWarning(event, testConfig("/run", `[evaluation]\ndata = "heldout.jsonl"\n${more}`));

Deno.test("a run that falls warns, with the best adapter's path and advice", () => {
  const warning = fall(ended("last", evaluated(20, forty(12))))!;
  assert.equal(warning.code, "worse_than_best");
  for (
    const part of ["30.0 % after update 20", "75.0 % after update 10", "/out/a_best.gguf", "training.lr"]
  ) {
    assert.ok(warning.message.includes(part), warning.message);
  }
  assert.match(
    fall(ended("best", evaluated(20, forty(12))))!.message,
    /\/out\/a\.gguf is the best one, the last is kept in \/out\/a_last\.gguf/,
  );
  assert.equal(fall(ended("last", evaluated(20, forty(29)))), null);
  const advice = (more: string) =>
    fall(ended("last", evaluated(20, forty(12))), more)!.message.split(". ").at(-1);
  assert.equal(advice(""), "Lower training.lr or agent.max_update_kl");
  assert.match(advice("every_updates = 5")!, /, or set evaluation\.patience$/);
  assert.equal(advice("every_updates = 5\npatience = 3"), "Lower training.lr or agent.max_update_kl");
  const unbounded = testConfig("/run", '[evaluation]\ndata = "heldout.jsonl"');
  unbounded.agent!.max_update_kl = 0;
  assert.match(
    fallWarning(ended("last", evaluated(20, forty(12))), unbounded)!.message,
    /\. Lower training\.lr or set agent\.max_update_kl$/,
  );
  const loss = evaluated(20, forty(12));
  const sft = { ...testConfig("/run"), run: { ...testConfig("/run").run, algorithm: "sft" as const } };
  assert.match(fallWarning(ended("last", loss), sft)!.message, /Lower training\.lr$/);
});
