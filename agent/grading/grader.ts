/** Graders give attempts their rewards. Rollouts and advantages know this interface only. */

import type { RewardSource } from "../../config/sections/agent.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { Coverage, Environment } from "../environment/environment.ts";
import type { Group, Measure } from "../trajectory/group.ts";
import type { Assessment, Trajectory, VerificationRecord } from "../trajectory/trajectory.ts";

/** An attempt that ended within every limit; its environment is still open. */
export interface OpenAttempt {
  scenario: Scenario;
  trajectory: Readonly<Trajectory>;
  environment: Environment;
}

/** The result of inspecting an open attempt. */
export interface Inspection<Evidence = unknown> {
  /** Passed to the same grader's `grade` with the attempt. */
  evidence: Evidence;
  /** This grader grades the attempt's group, whatever the other attempts are: later graders need not look at it. */
  decides?: boolean;
  /** Why the attempt cannot be graded; it then ends as `environment_failed`. Absent: it can. */
  failure?: string;
  /** A wall-clock limit was the cause. */
  timed_out?: boolean;
  /** For a verification by a command. */
  verification?: VerificationRecord;
  /** A sandbox of the attempt has ended before its end. Absent: none has. */
  sandbox_lost?: true;
}

/** A group whose rollouts have ended. */
export interface AttemptedGroup<Evidence = unknown> {
  scenario: Scenario;
  /** With all members, also those that hit a limit or failed. */
  group: Readonly<Group>;
  /** The completed members, in order. Empty only for a grader that does not cover all groups. */
  attempts: readonly { trajectory: Readonly<Trajectory>; evidence: Evidence | null }[];
}

/** The terminal reward of an attempt. */
export interface Grade {
  /** Finite; 0 for nothing. */
  reward: number;
  /** The grader's score and explanation; absent: it gives only the reward. */
  assessment?: Assessment;
}

/** The grades of a group's attempts, in order. */
export interface GroupGrades {
  grades: readonly Grade[];
  /** False when the same attempts may get other grades next time, as from a hosted service. */
  deterministic: boolean;
  /** The grader's own measures of the group, such as its tokens: metrics `<grader>/<name>` of the update. */
  measures?: Readonly<Record<string, Measure>>;
}

/**
 * Measures that any grader can have, as metrics `<grader>/<name>`. `failed_fraction`: groups without a usable answer ÷
 * groups that the grader was asked about; `degenerate_group_fraction`: groups whose attempts all have the same score ÷
 * groups that it graded.
 */
export type SharedMeasure = "failed_fraction" | "degenerate_group_fraction";

/**
 * A source of rewards. It may inspect each attempt at its end, while the environment is open, and it grades all
 * attempts of a group together. A verification needs only the inspection; a judge compares attempts.
 */
export interface Grader<Evidence = unknown> {
  readonly source: RewardSource;
  /** Whether evaluations ask it: true for a verification, whose grades are facts about the task. */
  readonly grades_evaluations: boolean;
  /** The shared measures that apply to this grader. */
  readonly shared_measures: readonly SharedMeasure[];
  /** Which groups of a scenario it grades. */
  coverage(scenario: Scenario): Coverage;
  /**
   * Called before rollouts: starts what grading needs, unless it runs. Absent: it needs nothing.
   *
   * @throws {ServiceError} `judge_failed` when it cannot be started, which fails the run.
   */
  start?(signal: AbortSignal): Promise<void>;
  /**
   * Inspects an attempt; absent when it needs no environment. An error is a failure of the environment, which loses the
   * attempt unless an earlier grader grades its group.
   */
  inspect?(attempt: OpenAttempt, signal: AbortSignal): Promise<Inspection<Evidence>>;
  /** Null: it does not grade this group, and the next grader is asked. An error is the grader's failure. */
  grade(group: AttemptedGroup<Evidence>, signal: AbortSignal): Promise<GroupGrades | null>;
}
