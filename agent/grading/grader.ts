/** Who says what attempts are worth. Graders stand between rollouts and advantages; neither knows which there are. */

import type { Scenario } from "../../data/scenario.ts";
import type { Environment } from "../environment/environment.ts";
import type { Group, RewardSource } from "../trajectory/group.ts";
import type { JudgeRecord, Trajectory, VerificationRecord } from "../trajectory/trajectory.ts";

/** An attempt that came to its end within every limit; its environment is still open. */
export interface OpenAttempt {
  scenario: Scenario;
  trajectory: Readonly<Trajectory>;
  environment: Environment;
}

/** What a look at an open attempt found. */
export interface Inspection<Evidence = unknown> {
  /** Handed to the same grader's `grade`, with the attempt. */
  evidence: Evidence;
  /** Why the attempt cannot be graded: it ends as `environment_failed`. Left out: it can. */
  failure?: string;
  /** A wall-clock limit decided it. */
  timed_out?: boolean;
  /** Of a verification by a command. */
  verification?: VerificationRecord;
}

/** A group whose rollouts are over. */
export interface AttemptedGroup<Evidence = unknown> {
  scenario: Scenario;
  /** With every member, also those that hit a limit or broke. */
  group: Readonly<Group>;
  /** The members that came to their end, in their order; none only for a grader whose `canGrade` was false. */
  attempts: readonly { trajectory: Readonly<Trajectory>; evidence: Evidence | null }[];
}

/** What an attempt earned at its end. */
export interface Grade {
  /** Finite; 0 for nothing. */
  reward: number;
  /** What a judge said of it. */
  judge?: JudgeRecord;
}

/** The grades of a group's attempts, in their order. */
export interface GroupGrades {
  grades: readonly Grade[];
  /** False when the same attempts need not get the same grades again, as from a hosted service. */
  deterministic: boolean;
}

/**
 * A source of rewards. It may look at each attempt at its end, while the environment is open, and it grades the attempts
 * of a group together, when all have ended. A verification needs the first alone; a judge compares attempts.
 */
export interface Grader<Evidence = unknown> {
  readonly source: RewardSource;
  /** Whether it grades all attempts at a scenario, whatever they come to: known before anything is rolled out. */
  canGrade(scenario: Scenario): boolean;
  /** Looks at an attempt; left out: it needs no environment. What this throws is a failure of the environment. */
  inspect?(attempt: OpenAttempt, signal: AbortSignal): Promise<Inspection<Evidence>>;
  /** Null: it has nothing to say of this group, and the next grader is asked. What this throws is the grader's failure. */
  grade(group: AttemptedGroup<Evidence>, signal: AbortSignal): Promise<GroupGrades | null>;
}
