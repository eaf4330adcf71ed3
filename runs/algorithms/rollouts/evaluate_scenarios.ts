/** The held-out pass rate with its uncertainty and the results by scenario. */

import { summarizeEvaluation } from "../../../agent/results/evaluate.ts";
import { chooseTranscripts } from "../../../agent/results/transcript.ts";
import { reasonsText } from "../../../agent/rollout/lost.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import type { ResolvedEvaluation } from "../../../config/check/derive.ts";
import { ServiceError } from "../../../core/errors.ts";
import type { Scenario } from "../../../data/scenario.ts";
import { followRollouts } from "../../record/activity.ts";
import { evenExample } from "../../record/paired_comparison.ts";
import { passRate } from "../../record/pass_rate.ts";
import type { AgentHost } from "../../session/agent_host.ts";
import type { EvaluationRequest, EvaluationResult } from "../algorithm.ts";

export interface EvaluateScenariosOptions extends EvaluationRequest {
  agent: AgentHost;
  scenarios: readonly Scenario[];
  evaluation: ResolvedEvaluation;
  concurrent_rollouts: number;
}

/** Runs attempts at held-out scenarios. The same seed gives the same random numbers for every adapter. */
export async function evaluateScenarios(options: EvaluateScenariosOptions): Promise<EvaluationResult> {
  const { agent, evaluation, adapter, limit, signal, concurrent_rollouts, activity } = options;
  const { samples_per_scenario, seed, temperature, max_examples } = evaluation;
  const scenarios = options.scenarios.slice(0, Math.min(limit ?? Infinity, max_examples ?? Infinity));
  const total = scenarios.length * samples_per_scenario;
  const rollouts = agent.rollout({
    update: 0,
    scenarios,
    group_size: samples_per_scenario,
    concurrent_rollouts,
    sampling: { domain: "evaluation", seed, temperature },
    adapter,
    ...(options.tape !== undefined && { tape: options.tape }),
  }, signal);
  const show = (done: number) => activity?.show({ phase: "evaluation", done, total });
  const groups = await followRollouts(rollouts, show);
  const result = resultOfAttempts(groups);
  const count = options.transcripts ?? 0;
  if (count === 0) return result;
  return { ...result, transcripts: chooseTranscripts(groups, result.scenarios, count) };
}

/**
 * Summarises the results of all attempts.
 *
 * @throws {ServiceError} `environment_failed`, or `data_invalid` when every prompt is too long, if no attempt could be
 * made at all: that says nothing about the model.
 */
export function resultOfAttempts(groups: readonly Group[]): EvaluationResult {
  const { scenarios, reward_mean, failed, failure, failures, deterministic } = summarizeEvaluation(groups);
  const pass_rate = passRate(scenarios);
  const broken = Object.values(failed).reduce((sum, n) => sum + n, 0);
  if (broken === pass_rate.attempts) {
    throw new ServiceError(
      failed.prompt_too_long === broken ? "data_invalid" : "environment_failed",
      `Cannot evaluate: all ${broken} attempts failed (${reasonsText(failed)}). First failure, at scenario ` +
        `${JSON.stringify(failure!.scenario)}, of the ${failure!.boundary}: ${failure!.message}`,
      { failed, failure },
    );
  }
  return {
    pass_rate,
    reward_mean,
    failed,
    failure,
    failures,
    loss: null,
    perplexity: null,
    rows: null,
    scenarios,
    by_example: Object.fromEntries(
      scenarios.map(({ scenario, passes, attempts }) => [scenario, evenExample(passes / attempts)]),
    ),
    deterministic,
  };
}
