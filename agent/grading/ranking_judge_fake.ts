/** A judge that ranks the attempts of a group by length, and fails on request. */

import type { Scenario } from "../../data/scenario.ts";
import type { AttemptedGroup, Grade, Grader, GroupGrades } from "./grader.ts";

export interface RankingJudgeOptions {
  /** Runs before a group is graded: it may throw, hang, or return grades. */
  before?: (scenario: Scenario) => Promise<GroupGrades | void> | GroupGrades | void;
  /** Whether it calls a tool at the end of each attempt; default: true. */
  inspects?: boolean;
}

export interface RankingJudge extends Grader<string> {
  /** The inspected attempts, as "scenario/member". */
  inspected: string[];
  /** The graded groups, with the evidence of each member. */
  graded: { scenario: string; members: number[]; evidence: (string | null)[] }[];
}

/**
 * An attempt's score is the share of the others that are shorter: 0 for the shortest and 1 for the longest. Its
 * evidence is the environment's answer to a last call. It measures the groups that it ranks, as `ranked`.
 */
export function rankingJudge({ before, inspects = true }: RankingJudgeOptions = {}): RankingJudge {
  const judge: RankingJudge = {
    source: "judge",
    grades_evaluations: false,
    // Only a judge scores attempts by comparing them.
    shared_measures: ["failed_fraction", "degenerate_group_fraction"],
    inspected: [],
    graded: [],
    coverage: () => "all",
    async grade(group) {
      const instead = await before?.(group.scenario);
      const { scenario, attempts } = group;
      judge.graded.push({
        scenario: scenario.id,
        members: attempts.map(({ trajectory }) => trajectory.member),
        evidence: attempts.map(({ evidence }) => evidence),
      });
      const measures = { ranked: { value: 1, over_groups: "sum" as const } };
      return instead ?? { grades: ranks(group), deterministic: false, measures };
    },
  };
  if (inspects) {
    judge.inspect = async ({ scenario, trajectory, environment }, signal) => {
      judge.inspected.push(`${scenario.id}/${trajectory.member}`);
      const look = { id: "look", name: "say", arguments: { text: "" } };
      return { evidence: (await environment.call(look, signal)).result ?? "" };
    };
  }
  return judge;
}

function ranks({ attempts }: AttemptedGroup<string>): Grade[] {
  const lengths = attempts.map(({ trajectory }) =>
    trajectory.turns.reduce((sum, { text }) => sum + text.length, 0)
  );
  return lengths.map((length) => {
    const shorter = lengths.filter((other) => other < length).length;
    const score = shorter / Math.max(1, lengths.length - 1);
    return { reward: score, assessment: { score, explanation: `${shorter} wrote less` } };
  });
}
