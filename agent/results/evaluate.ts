/** Evaluation: attempts at scenarios, graded by the environment and not used for training. */

import {
  breakReasons,
  firstFailure,
  firstFailures,
  type ReasonCounts,
  type ScenarioFailure,
} from "../rollout/lost.ts";
import { earnedReward, passed } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";

/** The results of the attempts at one scenario; lists are in the order of the attempts. */
export interface ScenarioOutcome {
  scenario: string;
  attempts: number;
  passes: number;
  /** The environment's reward; for a truncated attempt its step rewards only. Null: it failed and was not graded. */
  rewards: (number | null)[];
  stop_reasons: string[];
}

export interface EvaluationSummary {
  scenarios: ScenarioOutcome[];
  /** Mean over scenarios of the share of their attempts that passed. */
  pass_rate: number;
  /** Mean over scenarios of their attempts' mean reward; a failed attempt counts as 0. */
  reward_mean: number;
  /** Attempts that failed for reasons other than the model's, counted by reason; they have not passed. */
  failed: ReasonCounts;
  /** The first of these failures; null when there is none. */
  failure: ScenarioFailure | null;
  /** The first of these failures by reason. */
  failures: Record<string, ScenarioFailure>;
  deterministic: boolean;
}

/**
 * Summarises groups of attempts. An attempt passes when the environment graded it above 0. Truncated and failed
 * attempts count as not passed, so that limits and failures cannot raise the rate. Failed attempts are also counted by
 * reason: the true pass rate is higher by at most their share.
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
    failures: firstFailures(groups),
    deterministic: groups.every(({ members }) => members.every(({ deterministic }) => deterministic)),
  };
}
