import assert from "node:assert/strict";
import { evaluateRules, HealthSeries } from "./health.ts";
import { HEALTH_RULES } from "./health_rules.ts";

/** A series of each metric, from update 1 on. */
function seriesOf(metrics: Record<string, readonly number[]>): HealthSeries {
  const series = new HealthSeries();
  for (const [name, values] of Object.entries(metrics)) {
    values.forEach((value, i) => series.add({ names: [name], values: [value], update: i + 1 }));
  }
  return series;
}

const five = (value: number) => Array(5).fill(value) as number[];
const twenty = (value: number) => Array(20).fill(value) as number[];

/** By rule: its metric, values that hold, just at the threshold, values that break it, and the measure of these. */
const SIDES: Record<string, [metric: string, holds: number[], breaks: number[], value: number]> = {
  truncated: ["agent/truncated_fraction", [0, 0, 0.5, 0.25, 0.25], [0, 0, 0.5, 0.25, 0.3], 0.21],
  failed: ["agent/failed_fraction", [0.1], [0.11], 0.11],
  verification_failed: ["env/verify_failed_fraction", [0.05], [0.06], 0.06],
  sandboxes_lost: ["env/lost_sandbox_fraction", [0.05], [0.06], 0.06],
  groups_dropped: ["group/dropped_fraction", [0.25], [0.26], 0.26],
  tool_calls_falling: [
    "agent/tool_calls_per_turn",
    [...five(1), ...five(0.5)],
    [...five(1), ...five(0.25)],
    0.25,
  ],
  malformed_calls: ["agent/malformed_call_fraction", [0.1], [0.14], 0.14],
  groups_degenerate: ["group/degenerate_fraction", [0.5, 0.5], [0.5, 0.75], 0.625],
  too_easy: ["group/all_pass_fraction", [0.8], [1], 1],
  too_hard: ["group/all_fail_fraction", [0.8], [0.9], 0.9],
  reward_failed: ["reward/failed_fraction", [0.1], [0.2], 0.2],
  judge_degenerate: ["judge/degenerate_group_fraction", [0.5], [0.75], 0.75],
  judge_failed: ["judge/failed_fraction", [0.1], [0.2], 0.2],
  entropy_collapse: ["policy/entropy", [...five(1), ...five(0.25)], [...five(1), ...five(0.125)], 0.125],
  far_from_reference: ["kl/reference", [0.2], [0.25], 0.25],
  updates_shortened: ["optimizer/step_scale", [0.25], [0.125], 0.125],
  sampler_differs_mean: ["kl/sample_train_v1", [-0.01], [-0.02], 0.02],
  sampler_differs_spread: ["kl/sample_train_v2", [0.01], [0.011], 0.011],
  ratios_clipped: ["ratio/clipped_fraction_high", [0.1875], [0.3], 0.4],
  gradients_clipped: ["optimizer/clip_hit", [1, 1, 1, 1, 0], [1], 1],
  gradient_spike: ["optimizer/grad_norm", [...five(0.5), 5], [...five(0.5), 6], 12],
  eps_dominated: ["optimizer/eps_dominated_fraction", [0.5], [0.6], 0.6],
  pairs_confused: ["preference/accuracy", [0.5], [0.25], 0.25],
  loss_rising: ["loss/sft", [...twenty(1), ...twenty(1)], [...twenty(1), ...twenty(1.25)], 1.25],
  heldout_falls: ["eval/pass_rate", [0.25, 0.75, 0.6875], [0.25, 0.75, 0.5], 0.25],
  heldout_loss_rises: ["eval/loss", [3, 2, 2.0625], [3, 2, 2.5], 0.25],
  heldout_failed: ["eval/failed_fraction", [0.5, 0.05], [0.1], 0.1],
  waits_for_environments: ["env/acquire_ms_mean", [10_000], [10_001], 10_001],
};

const resultOf = (rule: string, metrics: Record<string, readonly number[]>) =>
  evaluateRules(seriesOf(metrics)).find((result) => result.rule === rule);

Deno.test("every rule holds at one side of its threshold and is broken at the other", () => {
  assert.deepEqual(Object.keys(SIDES), HEALTH_RULES.map(({ rule }) => rule));
  for (const { rule, level, threshold, advice } of HEALTH_RULES) {
    const [metric, holds, breaks, value] = SIDES[rule]!;
    const beside = { "ratio/clipped_fraction_low": [0.1] };
    const ok = resultOf(rule, { ...beside, [metric]: holds })!;
    assert.deepEqual([ok.level, ok.since_update], ["ok", null], rule);
    const broken = resultOf(rule, { ...beside, [metric]: breaks })!;
    assert.ok(Math.abs(broken.value - value) < 1e-12, `${rule}: ${broken.value}`);
    assert.deepEqual({ ...broken, value, since_update: null }, {
      rule,
      level,
      value,
      threshold,
      since_update: null,
      advice,
    });
    assert.notEqual(broken.since_update, null);
  }
});

Deno.test("a rule that holds exactly at its threshold, and is broken right beside it", () => {
  for (const { rule, metrics, measure, threshold, breaks } of HEALTH_RULES) {
    if (measure !== "mean" || metrics.length > 1) continue;
    const beyond = threshold * (breaks === "above" ? 1 + 1e-9 : 1 - 1e-9);
    assert.equal(resultOf(rule, { [metrics[0]!]: [threshold] })!.level, "ok", rule);
    assert.notEqual(resultOf(rule, { [metrics[0]!]: [beyond] })!.level, "ok", rule);
  }
});

Deno.test("since_update is the first update from which on the rule was broken every time", () => {
  const metric = "eval/failed_fraction";
  const since = (values: number[]) => resultOf("heldout_failed", { [metric]: values })!.since_update;
  assert.equal(since([1, 1, 1]), 1);
  assert.equal(since([1, 0, 1, 1]), 3);
  assert.equal(since([1, 1, 0]), null);
  // The mean of the last five of 0 0 0 0 0 1 1 1 is above 0.2 from the seventh update on.
  const truncated = [0, 0, 0, 0, 0, 1, 1, 1];
  assert.equal(resultOf("truncated", { "agent/truncated_fraction": truncated })!.since_update, 7);
});

Deno.test("a rule without enough updates says nothing", () => {
  assert.deepEqual(evaluateRules(seriesOf({})), []);
  assert.equal(resultOf("entropy_collapse", { "policy/entropy": [...five(1), 0, 0, 0, 0] }), undefined);
  assert.equal(resultOf("gradient_spike", { "optimizer/grad_norm": [1, 1, 1, 1, 100] }), undefined);
  assert.equal(resultOf("heldout_falls", { "eval/pass_rate": [1] }), undefined);
  assert.equal(resultOf("ratios_clipped", { "ratio/clipped_fraction_high": [1] }), undefined);
  // Nothing can be divided by a start of 0.
  assert.equal(resultOf("tool_calls_falling", { "agent/tool_calls_per_turn": Array(10).fill(0) }), undefined);
});

Deno.test("an update with several steps counts with their mean", () => {
  const series = new HealthSeries();
  for (const value of [0, 1, 1, 1]) series.add({ names: ["optimizer/clip_hit"], values: [value], update: 1 });
  assert.deepEqual(evaluateRules(series).map(({ rule, value }) => [rule, value]), [[
    "gradients_clipped",
    0.75,
  ]]);
});

Deno.test("critical rules come before warnings, and both before those that hold", () => {
  const results = evaluateRules(seriesOf({
    "kl/sample_train_v2": [1],
    "agent/truncated_fraction": [0],
    "agent/failed_fraction": [1],
  }));
  assert.deepEqual(results.map(({ rule, level }) => [rule, level]), [
    ["sampler_differs_spread", "critical"],
    ["failed", "warning"],
    ["truncated", "ok"],
  ]);
});
