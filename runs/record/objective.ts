/** The metrics by which evaluations are compared. A new objective is an entry here. */

/** The values of an evaluation that objectives read. */
interface Evaluated {
  pass_rate: { rate: number } | null;
  loss: number | null;
}

/** A metric of {@link OBJECTIVES}. */
export interface ObjectiveFacts {
  higher_is_better: boolean;
  /** Whether it is a share of attempts, from 0 to 1, which algorithms have in common; else it is a mean loss. */
  is_rate: boolean;
  /** In words. */
  label: string;
  /** The unit of an evaluation: a scenario has an id, a row is known by its line in the file. */
  example: "scenario" | "row";
  /** Its value in an evaluation; null when the evaluation has another objective. */
  valueOf(evaluation: Evaluated): number | null;
}

/** By metric name. An algorithm has one of them as its objective. */
export const OBJECTIVES = {
  "eval/pass_rate": {
    higher_is_better: true,
    is_rate: true,
    label: "pass rate",
    example: "scenario",
    valueOf: ({ pass_rate }) => pass_rate?.rate ?? null,
  },
  "eval/loss": {
    higher_is_better: false,
    is_rate: false,
    label: "loss",
    example: "row",
    valueOf: ({ loss }) => loss,
  },
} as const satisfies Record<string, ObjectiveFacts>;

/** The name of an objective's metric. */
export type Objective = keyof typeof OBJECTIVES;

/** The names of {@link OBJECTIVES}. */
export const OBJECTIVE_NAMES = Object.keys(OBJECTIVES) as Objective[];

/** How much better one value is than another: negative when it is worse. */
export function gainOf(metric: Objective, { from, to }: { from: number; to: number }): number {
  return OBJECTIVES[metric].higher_is_better ? to - from : from - to;
}

/** The objective that an evaluation measured, with its value; null without one. */
export function objectiveOf(evaluation: Evaluated): { metric: Objective; value: number } | null {
  for (const metric of OBJECTIVE_NAMES) {
    const value = OBJECTIVES[metric].valueOf(evaluation);
    if (value !== null) return { metric, value };
  }
  return null;
}
