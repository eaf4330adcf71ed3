import { deepEqual, equal, ok } from "node:assert/strict";
import type { Group } from "../trajectory/group.ts";
import { type AdvantageKind, assignAdvantages } from "./advantage.ts";
import { applyTruncation } from "./reward.ts";
import { rewardedGroup, testGroup, type TestMember } from "./group_testing.ts";

function advantages(members: TestMember[], kind: AdvantageKind = "leave_one_out"): number[][] {
  return settled(testGroup(members), kind).members.map((member) => member.turn_advantages);
}

function settled(group: Group, kind: AdvantageKind = "leave_one_out"): Group {
  applyTruncation(group, "min_reward");
  assignAdvantages(group, kind);
  return group;
}

const near = (actual: number, expected: number) =>
  ok(Math.abs(actual - expected) < 1e-12, `${actual} is not ${expected}`);

Deno.test("leave-one-out subtracts the mean of the others", () => {
  const group = settled(rewardedGroup([1, 0, 0, 1, 1]));
  // 1 − 2/4 and 0 − 3/4.
  deepEqual(group.members.map(({ advantage }) => advantage), [0.5, -0.75, -0.75, 0.5, 0.5]);
  equal(group.status, "kept");
});

Deno.test("mean and mean_std", () => {
  deepEqual(advantages([{ terminal: 3 }, { terminal: 1 }], "mean"), [[1], [-1]]);
  const scaled = advantages([{ terminal: 3 }, { terminal: 1 }], "mean_std");
  near(scaled[0]![0]!, 1 / (1 + 1e-4));
  const tiny = advantages([{ terminal: 1e-3 }, { terminal: 0 }], "mean_std");
  deepEqual(tiny, [[5e-4], [-5e-4]], "a deviation of 5e-4 divides nothing");
});

Deno.test("mean_std divides by the standard deviation of the total rewards", () => {
  // Totals 1 and 3 have standard deviation 1; the terminal parts 0 and 3 would have 1.5.
  const scaled = advantages(
    [{ step_rewards: [1], terminal: 0 }, { step_rewards: [0], terminal: 3 }],
    "mean_std",
  );
  near(scaled[0]![0]!, -1 / (1 + 1e-4));
  near(scaled[1]![0]!, 1 / (1 + 1e-4));
});

Deno.test("mean_std divides above a standard deviation of 1e-3, and not below", () => {
  const of = (high: number) => advantages([{ terminal: high }, { terminal: 0 }], "mean_std")[0]![0]!;
  // The standard deviation of two rewards is half of their difference, and so is their distance from the mean.
  near(of(2 * 1.01e-3), 1.01e-3 / (1.01e-3 + 1e-4));
  near(of(2 * 0.99e-3), 0.99e-3);
});

Deno.test("with a terminal reward only, turn-index leave-one-out is ordinary leave-one-out to the last bit", () => {
  const rewards = [0.1, 0.7, 0.2, 1 / 3, 0.9];
  const lengths = [1, 4, 2, 3, 1];
  const turns = advantages(
    rewards.map((terminal, i) => ({ terminal, step_rewards: Array(lengths[i]).fill(0) })),
  );
  rewards.forEach((reward, i) => {
    const others = rewards.filter((_, j) => j !== i).reduce((sum, r) => sum + r, 0);
    deepEqual(turns[i], Array(lengths[i]).fill(reward - others / 4));
  });
});

Deno.test("a step's reward counts for its turn and those before, against siblings at the same turn", () => {
  // Returns from turn κ on: (3, 2, 0), (1, 1), (0). Terminal: 1, 0, 2.
  const turns = advantages([
    { step_rewards: [1, 2, 0], terminal: 1 },
    { step_rewards: [0, 1], terminal: 0 },
    { step_rewards: [0], terminal: 2 },
  ]);
  // Terminal parts: 1 − 1 = 0, 0 − 1.5, 2 − 0.5.
  deepEqual(turns, [
    [3 - 0.5 + 0, 2 - 0.5 + 0, 0 - 0 + 0],
    [1 - 1.5 - 1.5, 1 - 1 - 1.5],
    [0 - 2 + 1.5],
  ]);
});

Deno.test("every token has its turn's advantage; the member has their mean", () => {
  const group = settled(testGroup([
    { step_rewards: [1, 0], turn_tokens: [1, 3] },
    { step_rewards: [0, 0], turn_tokens: [2, 2] },
  ]));
  const [first, second] = group.members;
  deepEqual(first!.fragments[0]!.sampled.advantages, [1, 0, 0, 0]);
  equal(first!.advantage, 0.25);
  deepEqual(second!.fragments[0]!.sampled.advantages, [-1, -1, 0, 0]);
});

Deno.test("a group without any difference is degenerate, per token", () => {
  equal(settled(rewardedGroup([0.5, 0.5, 0.5])).status, "degenerate");
  equal(settled(rewardedGroup([0.5, 0.5 + 1e-7])).status, "degenerate", "a judge's noise");
  equal(settled(rewardedGroup([0.5, 0.5 + 1e-5])).status, "kept");
  const steps = testGroup([{ step_rewards: [1, 0], terminal: 0 }, { step_rewards: [0, 1], terminal: 0 }]);
  equal(settled(steps).status, "kept", "equal totals, but the second turn differs");
  deepEqual(steps.members.map((member) => member.turn_advantages), [[0, -1], [0, 1]]);
});

Deno.test("a group whose rewards all come from min_reward is degenerate", () => {
  const group = settled(testGroup([
    { stop_reason: "max_turns", step_rewards: [1, 0] },
    { stop_reason: "max_turns", step_rewards: [0, 2] },
  ]));
  equal(group.status, "degenerate");
  deepEqual(group.members.map((member) => member.turn_advantages), [[0, 0], [0, 0]]);
});

/** One possible episode: its probability, d logπ/dθ of each turn's action, and its rewards. */
interface Play {
  p: number;
  scores: number[];
  steps: number[];
  terminal: number;
}

/** E[1/G Σ_i Σ_t A_{i,t} ∇logπ_{i,t}] over every pair of plays. */
function expectedGradient(plays: Play[]): number {
  let expected = 0;
  for (const a of plays) {
    for (const b of plays) {
      const pair = [a, b];
      const turns = advantages(pair.map(({ steps, terminal }) => ({ step_rewards: steps, terminal })));
      const estimate = pair.reduce((sum, play, i) =>
        sum + play.scores.reduce((s, score, t) =>
          s + score * turns[i]![t]!, 0), 0) / 2;
      expected += a.p * b.p * estimate;
    }
  }
  return expected;
}

const p = 0.6, q = 1 - p;

Deno.test("the estimator's expectation is the true gradient of a game with steps and early ends", () => {
  // One parameter θ, p = σ(θ): action 1 with probability p. Turn 1: action 1 earns 1 and continues; action 0 ends with
  // terminal 0.5. Turn 2: action 1 earns 2; action 0 costs 1 and ends with terminal 3. So J = p(1 + 2p + (1 − p)(−1 +
  // 3)) + (1 − p)·0.5.
  const plays: Play[] = [
    { p: q, scores: [-p], steps: [0], terminal: 0.5 },
    { p: p * p, scores: [q, q], steps: [1, 2], terminal: 0 },
    { p: p * q, scores: [q, -p], steps: [1, -1], terminal: 3 },
  ];
  // J = 3p − 0.5p + 0.5 = 2.5p + 0.5 and dp/dθ = p(1 − p).
  near(expectedGradient(plays), 2.5 * p * q);
});

Deno.test("a reward that every action earns does not affect what is learned", () => {
  // Turn 1 earns 1 for either action. Then the action, which alone depends on θ, is to stop or to continue.
  const plays: Play[] = [
    { p: p, scores: [0, q], steps: [1, 0], terminal: 0 },
    { p: q * p, scores: [0, -p, q], steps: [1, 0, 0], terminal: 0 },
    { p: q * q, scores: [0, -p, -p], steps: [1, 0, 0], terminal: 0 },
  ];
  near(expectedGradient(plays), 0);
});
