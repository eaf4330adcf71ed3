/** Environments: tools act in them, and tasks are graded in them. Each attempt has its own. */

import type { Scenario } from "../../data/scenario.ts";
import type { ToolCatalog, ToolHost } from "../tools/tool_host.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";

/** An environment's grade of its attempt. */
export interface EnvironmentGrade {
  /** The terminal reward; null when this scenario has nothing to verify, or the verification failed. */
  reward: number | null;
  /** Why the verification failed, also in an untouched workspace; absent: it graded, or there is nothing to verify. */
  failure?: string;
  /** A wall-clock limit ended the verification. */
  timed_out: boolean;
  /** For a verification by a command. */
  verification?: VerificationRecord;
  /** A sandbox of the attempt has ended before its end. Absent: none has. */
  sandbox_lost?: true;
}

/** The final state of an attempt. */
export interface EnvironmentState {
  /** As a reward program or a judge sees it: any JSON value; null when the environment offers none. */
  value: unknown;
  /** A wall-clock limit ended what tells the state. Absent: none did. */
  timed_out?: true;
  /** A sandbox of the attempt has ended before its end. Absent: none has. */
  sandbox_lost?: true;
}

/** The environment of one attempt. */
export interface Environment extends ToolHost {
  /** What the attempt starts with, shown to the model after its task: any JSON value; null or absent: nothing. */
  readonly observation?: unknown;
  /** Grades the state that the attempt left. @throws {ServiceError} `environment_failed`. */
  grade(signal: AbortSignal): Promise<EnvironmentGrade>;
  /** The state that the attempt left. @throws {ServiceError} `environment_failed`. */
  state(signal: AbortSignal): Promise<EnvironmentState>;
}

/**
 * Which groups of a scenario get grades, as far as it is known before the rollout: all; those in which a call had a
 * reward; none.
 */
export type Coverage = "all" | "some" | "none";

/** A catalogue that scenarios may have. */
export interface OfferedCatalog extends ToolCatalog {
  /** Used by scenarios that name no toolset. */
  is_default: boolean;
}

/** Opens environments for a run. */
export interface EnvironmentFactory {
  /** The limit of a tool call, also for a tool that ignores its signal. */
  readonly call_timeout_ms: number;
  /** How to make an ungraded scenario gradable, as the advice of a refusal, such as `give it metadata.env.verify`. */
  readonly grading_advice: string;
  /**
   * The tools of a scenario.
   *
   * @throws {ServiceError} `data_invalid`, `not_built`; `config_invalid` for tools that cannot be offered together;
   * `environment_failed` when a tool host does not answer.
   */
  catalog(scenario: Scenario, signal: AbortSignal): Promise<ToolCatalog>;
  /** All catalogues that scenarios may have, the default first. @throws {ServiceError} Like `catalog`. */
  catalogs(signal: AbortSignal): Promise<OfferedCatalog[]>;
  /**
   * Refuses what cannot open on this machine, before a run starts. Absent: nothing is known before the first attempt.
   *
   * @throws {ServiceError} `infrastructure_failed`, `environment_failed`.
   */
  check?(signal: AbortSignal): Promise<void>;
  /** Which groups of a scenario the environment grades: what the environment needs of scenarios follows from it. */
  coverage(scenario: Scenario): Coverage;
  /** Opens an environment for one attempt. @throws {ServiceError} `environment_failed`. */
  open(scenario: Scenario, options: OpenOptions): Promise<Environment>;
  /** Releases what the environments share. Never throws; a second call does nothing. */
  close(): Promise<void>;
}

/** Options of one environment. */
export interface OpenOptions {
  /** For environments with randomness: the same for all members of a group, so that they start equal. */
  seed: number;
  /** The place of the attempt in its rollout, for recordings; absent: no rollout's. No environment depends on it. */
  attempt?: { group: number; member: number };
  signal: AbortSignal;
}
