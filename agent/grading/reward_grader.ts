/** An operator's program as a grader. */

import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { AttemptedGroup, Grader } from "./grader.ts";
import { inspectState } from "./inspect_state.ts";
import type { RewardProgram, RewardRequest } from "./reward_program.ts";

/**
 * Grades by a program. It sees the scenario, the conversation and the environment's final state, and grades every group
 * that no grader before it has graded.
 */
export function rewardGrader(program: RewardProgram): Grader {
  return {
    source: "reward",
    grades_evaluations: false,
    shared_measures: ["failed_fraction"],
    coverage: () => "all",
    async start(signal) {
      try {
        await program.start(signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof ServiceError)) throw error;
        throw new ServiceError("judge_failed", error.message, {}, { cause: error });
      }
    },
    inspect: inspectState,
    async grade(group, signal) {
      const answers = await program.ask(requestsOf(group), signal);
      const grades = answers.map(({ reward, explanation }) => ({
        reward,
        ...(explanation !== null && { assessment: { score: reward, explanation } }),
      }));
      return { grades, deterministic: true };
    },
  };
}

function requestsOf({ scenario, group, attempts }: AttemptedGroup): RewardRequest[] {
  return attempts.map(({ trajectory, evidence: state }) => ({
    id: `${group.update}/${group.group}/${trajectory.member}`,
    scenario: written(scenario),
    messages: trajectory.messages,
    ...(state !== null && { state }),
  }));
}

function written({ id, user, system, metadata }: Scenario): RewardRequest["scenario"] {
  return { id, user, ...(system !== null && { system }), metadata };
}
