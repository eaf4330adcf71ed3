/** Evaluation: attempts at scenarios, graded by the environment, learnt from by nobody. */

import type { Group } from "./rollout/group.ts";
import { passed } from "./rollout/reward.ts";
import { isTruncated } from "./rollout/trajectory.ts";

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
  deterministic: boolean;
}

/**
 * What groups of attempts came to. An attempt passes when the environment graded it above 0; one that ran out of a
 * budget or broke has not passed, so that limits and failures are never hidden by leaving attempts out.
 */
export function summarizeEvaluation(groups: readonly Group[]): EvaluationSummary {
  const scenarios = groups.map(({ scenario, members }): ScenarioOutcome => ({
    scenario,
    attempts: members.length,
    passes: members.filter(passed).length,
    rewards: members.map(({ total_reward, stop_reason, step_rewards }) =>
      isTruncated(stop_reason) ? step_rewards.reduce((sum, r) => sum + r, 0) : total_reward
    ),
    stop_reasons: members.map(({ stop_reason }) => stop_reason),
  }));
  const mean = (value: (outcome: ScenarioOutcome) => number) =>
    scenarios.reduce((sum, outcome) => sum + value(outcome) / outcome.attempts, 0) /
    Math.max(1, scenarios.length);
  return {
    scenarios,
    pass_rate: mean(({ passes }) => passes),
    reward_mean: mean(({ rewards }) => rewards.reduce((sum: number, reward) => sum + (reward ?? 0), 0)),
    deterministic: groups.every(({ members }) => members.every(({ deterministic }) => deterministic)),
  };
}
