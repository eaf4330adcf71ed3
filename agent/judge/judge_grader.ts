/** A judge as a grader: it compares the attempts of a group that nothing else grades. */

import { ServiceError } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import type { Grader } from "../grading/grader.ts";
import { inspectState } from "../grading/inspect_state.ts";
import { shownOrder } from "./judged_group.ts";
import type { RulerJudge } from "./ruler_judge.ts";

/** Options of {@link judgeGrader} besides the judge. */
export interface JudgeGraderOptions {
  /** Whether the order of attempts is shuffled; false: that of the members. */
  permute: boolean;
  /** The run's seed. */
  seed: number;
}

/**
 * Grades every group that no grader before it has graded, by one request for all of its attempts. An attempt whose
 * environment offers a final state is judged by it, in place of the transcript.
 */
export function judgeGrader(judge: RulerJudge, { permute, seed }: JudgeGraderOptions): Grader {
  return {
    source: "judge",
    grades_evaluations: false,
    shared_measures: ["failed_fraction", "degenerate_group_fraction"],
    coverage: () => "all",
    async start(signal) {
      try {
        await judge.start(signal);
      } catch (error) {
        if (signal.aborted || !(error instanceof ServiceError)) throw error;
        throw new ServiceError("judge_failed", error.message, error.details, { cause: error });
      }
    },
    inspect: inspectState,
    async grade({ scenario, group, attempts }, signal) {
      const key = permute ? rngKey(seed, "judge", scenario.id, group.update) : null;
      const judged = {
        rubric: scenario.rubric,
        tools: group.tools,
        attempts: attempts.map(({ trajectory: { messages }, evidence }) => ({
          messages,
          state: evidence ?? null,
        })),
      };
      const { scores, tokens } = await judge.judge(judged, (distinct) => shownOrder(distinct, key), signal);
      return {
        grades: scores.map((score) => ({ reward: score.score, assessment: score })),
        deterministic: judge.deterministic,
        measures: { tokens: { value: tokens, over_groups: "sum" } },
      };
    },
  };
}
