/** The held-out pass rate, with its uncertainty and every scenario's outcome. */

import { type ScenarioOutcome, summarizeEvaluation } from "../agent/evaluate.ts";
import type { Group } from "../agent/rollout/group.ts";
import type { Scenario } from "../agent/scenario/scenario.ts";
import type { ResolvedEvaluation } from "../config/derive.ts";
import type { AgentHost } from "./agent_host.ts";
import type { EvaluationRequest, EvaluationResult } from "./algorithm.ts";
import type { Rate } from "./event.ts";
import { bootstrapMean, mean, wilsonInterval } from "./statistics.ts";

export interface EvaluateScenariosOptions extends EvaluationRequest {
  agent: AgentHost;
  scenarios: readonly Scenario[];
  evaluation: ResolvedEvaluation;
  concurrent_rollouts: number;
}

/** Tries held-out scenarios; the same seed draws the same numbers whichever adapter is tried. */
export async function evaluateScenarios(options: EvaluateScenariosOptions): Promise<EvaluationResult> {
  const { agent, scenarios, evaluation, adapter, limit, signal, concurrent_rollouts } = options;
  const { samples_per_scenario, seed, temperature, max_examples } = evaluation;
  const groups = await agent.rollout({
    update: 0,
    scenarios: scenarios.slice(0, Math.min(limit ?? Infinity, max_examples ?? Infinity)),
    group_size: samples_per_scenario,
    concurrent_rollouts,
    sampling: { domain: "evaluation", seed, temperature },
    adapter,
  }, signal);
  return evaluationOf(groups, seed);
}

/** What the outcomes of all attempts say. */
export function evaluationOf(groups: readonly Group[], seed: number): EvaluationResult {
  const { scenarios, reward_mean, deterministic } = summarizeEvaluation(groups);
  return {
    pass_rate: passRate(scenarios, seed),
    reward_mean,
    loss: null,
    perplexity: null,
    scenarios,
    by_example: Object.fromEntries(
      scenarios.map(({ scenario, passes, attempts }) => [scenario, passes / attempts]),
    ),
    deterministic,
  };
}

/**
 * The mean over scenarios of the share of attempts that passed. Its interval is Wilson's where each scenario has one
 * attempt, else a bootstrap over scenarios: attempts at one scenario are not independent.
 */
export function passRate(scenarios: readonly ScenarioOutcome[], seed: number): Rate {
  const rates = scenarios.map(({ passes, attempts }) => passes / attempts);
  const single = scenarios.every(({ attempts }) => attempts === 1);
  const interval = single
    ? wilsonInterval(rates.reduce((sum, rate) => sum + rate, 0), rates.length)
    : bootstrapMean(rates, seed);
  return { rate: mean(rates), ...interval };
}
