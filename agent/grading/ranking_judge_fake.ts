/** A judge that compares the attempts of a group by how much each wrote, and breaks on purpose. */

import type { Scenario } from "../../data/scenario.ts";
import type { AttemptedGroup, Grade, Grader, GroupGrades } from "./grader.ts";

export interface RankingJudgeOptions {
  /** Runs before a group is graded: it may throw, hang, or answer in the judge's place. */
  before?: (scenario: Scenario) => Promise<GroupGrades | void> | GroupGrades | void;
}

export interface RankingJudge extends Grader<string> {
  /** Attempts that it looked at, as "scenario/member". */
  inspected: string[];
  /** The groups that it graded, with what it was given of each member. */
  graded: { scenario: string; members: number[]; evidence: (string | null)[] }[];
}

/**
 * An attempt's score is the share of the others that wrote less: 0 for the shortest and 1 for the longest. Its evidence
 * is what the environment answers to the last look at it.
 */
export function rankingJudge({ before }: RankingJudgeOptions = {}): RankingJudge {
  const judge: RankingJudge = {
    source: "judge",
    inspected: [],
    graded: [],
    canGrade: () => true,
    async inspect({ scenario, trajectory, environment }, signal) {
      judge.inspected.push(`${scenario.id}/${trajectory.member}`);
      const look = { id: "look", name: "say", arguments: { text: "" } };
      return { evidence: (await environment.call(look, signal)).result ?? "" };
    },
    async grade(group) {
      const instead = await before?.(group.scenario);
      const { scenario, attempts } = group;
      judge.graded.push({
        scenario: scenario.id,
        members: attempts.map(({ trajectory }) => trajectory.member),
        evidence: attempts.map(({ evidence }) => evidence),
      });
      return instead ?? { grades: ranks(group), deterministic: false };
    },
  };
  return judge;
}

function ranks({ attempts }: AttemptedGroup<string>): Grade[] {
  const lengths = attempts.map(({ trajectory }) =>
    trajectory.turns.reduce((sum, { text }) => sum + text.length, 0)
  );
  return lengths.map((length) => {
    const shorter = lengths.filter((other) => other < length).length;
    const score = shorter / Math.max(1, lengths.length - 1);
    return { reward: score, judge: { score, explanation: `${shorter} wrote less` } };
  });
}
