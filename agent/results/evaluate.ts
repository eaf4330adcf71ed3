/** Evaluation: attempts at scenarios, graded by the environment, learnt from by nobody. */

import { breakReasons, firstFailure, type ReasonCounts, type ScenarioFailure } from "../rollout/lost.ts";
import { earnedReward, passed } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";

/** What the attempts at one scenario came to; lists are in the order of the attempts. */
export interface ScenarioOutcome {
  scenario: string;
  attempts: number;
  passes: number;
  /** The environment's reward; a truncated attempt has its steps' alone. Null: it broke and was not graded. */
  rewards: (number | null)[];
  stop_reasons: string[];
}

export interface EvaluationSummary {
  scenarios: ScenarioOutcome[];
  /** Mean over scenarios of the share of their attempts that passed. */
  pass_rate: number;
  /** Mean over scenarios of their attempts' mean reward; what broke counts as 0. */
  reward_mean: number;
  /** Attempts that broke for reasons other than the model's, counted by reason; they have not passed. */
  failed: ReasonCounts;
  /** The first of these; null without one. */
  failure: ScenarioFailure | null;
  deterministic: boolean;
}

/**
 * What groups of attempts came to. An attempt passes when the environment graded it above 0; one that ran out of a
 * budget or broke has not passed, so that limits and failures are never hidden by leaving attempts out. What broke is
 * counted by its reason beside that: the pass rate is then too low by at most its share.
 */
export function summarizeEvaluation(groups: readonly Group[]): EvaluationSummary {
  const scenarios = groups.map(({ scenario, members }): ScenarioOutcome => ({
    scenario,
    attempts: members.length,
    passes: members.filter(passed).length,
    rewards: members.map(earnedReward),
    stop_reasons: members.map(({ stop_reason }) => stop_reason),
  }));
  const mean = (value: (outcome: ScenarioOutcome) => number) =>
    scenarios.reduce((sum, outcome) => sum + value(outcome) / outcome.attempts, 0) /
    Math.max(1, scenarios.length);
  return {
    scenarios,
    pass_rate: mean(({ passes }) => passes),
    reward_mean: mean(({ rewards }) => rewards.reduce((sum: number, reward) => sum + (reward ?? 0), 0)),
    failed: breakReasons(groups),
    failure: firstFailure(groups),
    deterministic: groups.every(({ members }) => members.every(({ deterministic }) => deterministic)),
  };
}
