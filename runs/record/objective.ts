/** The metrics by which evaluations are compared. */

/** A metric of {@link OBJECTIVES}. */
export interface ObjectiveFacts {
  higher_is_better: boolean;
  /** A share of attempts, from 0 to 1; else a loss. */
  is_rate: boolean;
}

/** By metric name. An algorithm has one of them as its objective. */
export const OBJECTIVES = {
  "eval/pass_rate": { higher_is_better: true, is_rate: true },
  "eval/loss": { higher_is_better: false, is_rate: false },
} as const satisfies Record<string, ObjectiveFacts>;

/** The name of an objective's metric. */
export type Objective = keyof typeof OBJECTIVES;
