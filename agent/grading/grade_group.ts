/**
 * From graders to rewards: graders inspect each attempt at its end, and grade the group when all attempts have ended.
 */

import type { Clock } from "../../core/clock.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { boundary, BoundaryFailure, brokenBy } from "../trajectory/boundary.ts";
import type { Group } from "../trajectory/group.ts";
import { isComplete, type Trajectory } from "../trajectory/trajectory.ts";
import type { Grade, Grader, GroupGrades, Inspection, OpenAttempt } from "./grader.ts";
import { addMeasures } from "./measures.ts";

/**
 * The evidence that each grader found in an attempt's environment; passed to its `grade`. A {@link BoundaryFailure}: it
 * could not look, and the attempt is lost when this grader is asked.
 */
export type EvidenceByGrader = ReadonlyMap<Grader, unknown>;

/** The graders that may grade a scenario's groups: up to the first that grades all of them. */
function gradersOf(scenario: Scenario, graders: readonly Grader[]): readonly Grader[] {
  const last = graders.findIndex((grader) => grader.coverage(scenario) === "all");
  const asked = last < 0 ? graders : graders.slice(0, last + 1);
  return asked.filter((grader) => grader.coverage(scenario) !== "none");
}

/**
 * Lets graders inspect an open attempt in order, until one finds that it cannot be graded, or that no later one will be
 * asked. Whether the first grades the group is known when all attempts have ended, so a failure to inspect for another
 * one is kept as its evidence.
 */
export async function inspectAttempt(
  attempt: OpenAttempt,
  graders: readonly Grader[],
  signal: AbortSignal,
): Promise<Inspection<EvidenceByGrader>> {
  const evidence = new Map<Grader, unknown>();
  const found: Inspection<EvidenceByGrader> = { evidence };
  for (const [i, grader] of gradersOf(attempt.scenario, graders).entries()) {
    if (!grader.inspect) continue;
    try {
      const { evidence: own, decides = false, ...rest } = await grader.inspect(attempt, signal);
      evidence.set(grader, own);
      Object.assign(found, rest);
      if (decides || found.failure !== undefined) break;
    } catch (error) {
      const failure = brokenBy("environment", error);
      if (i === 0 || signal.aborted || failure.kind === "cancelled") throw error;
      evidence.set(grader, failure);
    }
  }
  return found;
}

/** Options of {@link gradeGroup} besides the group. */
export interface GradeGroupOptions {
  scenario: Scenario;
  graders: readonly Grader[];
  /** By member; null for a member that was not inspected. */
  evidence: readonly (EvidenceByGrader | null)[];
  /** Whether a grader that fails drops the group or fails the run. */
  judge_failure: "drop_group" | "fail";
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Gives rewards to the completed attempts of a group. The first grader that returns grades is the only source
 * (`graded_by`): its grade is the terminal reward, and the total adds the step rewards. A grader that fails leaves the
 * group without rewards, which drops it.
 *
 * @throws {ServiceError} `judge_failed` for a grader that fails under `judge_failure = "fail"`.
 */
export async function gradeGroup(group: Group, options: GradeGroupOptions): Promise<void> {
  const { scenario, graders, judge_failure, clock } = options;
  let attempts = completed(group);
  const started_ms = clock.monotonic_ms();
  let asked: Grader | null = null;
  try {
    for (const grader of gradersOf(scenario, graders)) {
      asked = grader;
      loseUninspected(attempts, grader, options);
      attempts = completed(group);
      const answer = await askGrader(grader, { group, attempts }, options);
      if (!answer) continue;
      group.graded_by = grader.source;
      addMeasures(group, grader, { answer, attempts: attempts.length });
      attempts.forEach((trajectory, i) => applyGrade(trajectory, answer.grades[i]!));
      if (!answer.deterministic) markNondeterministic(attempts);
      return;
    }
  } catch (error) {
    if (!(error instanceof BoundaryFailure) || error.kind === "cancelled") throw error;
    const { failure } = error;
    if (judge_failure === "fail") {
      throw new ServiceError(
        "judge_failed",
        `Cannot grade the attempts at scenario ${JSON.stringify(scenario.id)}: ${failure.message}; ` +
          'set agent.judge_failure = "drop_group" to go on without such groups',
        { scenario: scenario.id, boundary: failure.boundary },
        { cause: error },
      );
    }
    addMeasures(group, asked!, { answer: null, attempts: attempts.length });
    for (const trajectory of attempts) trajectory.failure = failure;
    markNondeterministic(attempts);
  } finally {
    const share_ms = (clock.monotonic_ms() - started_ms) / attempts.length;
    for (const { timings } of attempts) timings.reward_ms += share_ms;
  }
}

const completed = ({ members }: Group) => members.filter(({ stop_reason }) => isComplete(stop_reason));

/** Attempts that the grader could not inspect have failed, now that it is asked. */
function loseUninspected(
  attempts: readonly Trajectory[],
  grader: Grader,
  { evidence }: GradeGroupOptions,
): void {
  for (const trajectory of attempts) {
    const found = evidence[trajectory.member]?.get(grader);
    if (!(found instanceof BoundaryFailure)) continue;
    Object.assign(trajectory, {
      stop_reason: "environment_failed",
      status: "failed",
      failure: found.failure,
      deterministic: trajectory.deterministic && !found.is_transient,
    });
  }
}

/** A grader's checked answer. A group without completed attempts is not sent to it. */
async function askGrader(
  grader: Grader,
  { group, attempts }: { group: Group; attempts: readonly Trajectory[] },
  { scenario, evidence, clock, signal }: GradeGroupOptions,
): Promise<GroupGrades | null> {
  if (attempts.length === 0 && grader.coverage(scenario) === "all") {
    return { grades: [], deterministic: true };
  }
  const request = {
    scenario,
    group,
    attempts: attempts.map((trajectory) => ({
      trajectory,
      evidence: evidence[trajectory.member]?.get(grader) ?? null,
    })),
  };
  return await boundary({ name: grader.source, clock, signal, timeout_ms: null }, async (inner) => {
    const answer = await grader.grade(request, inner);
    if (answer) checkGrades(answer, attempts.length);
    return answer;
  });
}

function checkGrades({ grades, measures = {} }: GroupGrades, attempts: number): void {
  if (grades.length !== attempts) throw new Error(`it gave ${grades.length} grades for ${attempts} attempts`);
  for (const { reward } of grades) {
    if (!Number.isFinite(reward)) throw new Error(`the reward ${reward} is not a finite number`);
  }
  for (const [name, { value }] of Object.entries(measures)) {
    if (!Number.isFinite(value)) throw new Error(`its measure ${name} = ${value} is not a finite number`);
  }
}

function applyGrade(trajectory: Trajectory, { reward, assessment }: Grade): void {
  assert(trajectory.total_reward === null, "an attempt has one source of rewards");
  trajectory.terminal_reward = reward;
  trajectory.total_reward = trajectory.step_rewards.reduce((sum, step) => sum + step, 0) + reward;
  if (assessment) trajectory.assessment = assessment;
}

function markNondeterministic(attempts: readonly Trajectory[]): void {
  for (const trajectory of attempts) trajectory.deterministic = false;
}
