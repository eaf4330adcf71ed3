/** The environment as a grader: its verification after an attempt, and the step rewards of its tools. */

import type { EnvironmentFactory } from "../environment/environment.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import type { Grader } from "./grader.ts";

/**
 * Grades by the environment's verification; no reward counts as 0. It grades the scenarios that the environment can
 * verify, and every group in which a call had a reward.
 */
export function environmentGrader(environments: Pick<EnvironmentFactory, "coverage">): Grader<number | null> {
  return {
    source: "environment",
    grades_evaluations: true,
    // The environment's own metrics count failed verifications.
    shared_measures: [],
    coverage: (scenario) => environments.coverage(scenario),
    async inspect({ environment, trajectory }, signal) {
      const { reward, ...found } = await environment.grade(signal);
      if (reward !== null && !Number.isFinite(reward)) {
        throw new Error(`the reward ${reward} is not a finite number`);
      }
      return { ...found, evidence: reward, decides: hasStepReward(trajectory) };
    },
    grade({ scenario, group, attempts }) {
      if (environments.coverage(scenario) !== "all" && !group.members.some(hasStepReward)) {
        return Promise.resolve(null);
      }
      const grades = attempts.map(({ evidence }) => ({ reward: evidence ?? 0 }));
      return Promise.resolve({ grades, deterministic: true });
    },
  };
}

function hasStepReward({ turns }: Readonly<Trajectory>): boolean {
  return turns.some(({ calls }) => calls.some(({ reward }) => reward !== null));
}
