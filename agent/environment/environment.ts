/** Environments: tools act in them, and tasks are graded in them. Each trajectory has its own. */

import type { Scenario } from "../../data/scenario.ts";
import type { ToolCatalog, ToolHost } from "../tools/tool_host.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";

/** An environment's grade of its trajectory. */
export interface EnvironmentGrade {
  /** The terminal reward; null when this scenario has nothing to verify, or the verification failed. */
  reward: number | null;
  /** Why the verification failed to judge the attempt; absent when it did judge it. */
  failure?: string;
  /** A wall-clock limit ended the verification. */
  timed_out: boolean;
  /** For a verification by a command. */
  verification?: VerificationRecord;
}

/** The environment of one trajectory. */
export interface Environment extends ToolHost {
  /** Grades the state that the trajectory left. @throws {ServiceError} `environment_failed`. */
  grade(signal: AbortSignal): Promise<EnvironmentGrade>;
  /** Releases all resources. Never throws; a second call does nothing. */
  close(): Promise<void>;
}

/** Opens environments for a run. */
export interface EnvironmentFactory {
  readonly type: "container" | "local" | "http";
  /** The limit of a tool call, also for a tool that ignores its signal. */
  readonly call_timeout_ms: number;
  /**
   * The tools of a scenario.
   *
   * @throws {ServiceError} `data_invalid`, `not_built`; `environment_failed` when the tool host does not answer.
   */
  catalog(scenario: Scenario): Promise<ToolCatalog>;
  /** Whether the environment can tell success from failure on this scenario. */
  canGrade(scenario: Scenario): boolean;
  /** Opens an environment for one trajectory. @throws {ServiceError} `environment_failed`. */
  open(scenario: Scenario, options: OpenOptions): Promise<Environment>;
}

/** Options of one environment. */
export interface OpenOptions {
  /** For environments with randomness: a function of (seed, update, scenario, member). */
  seed: number;
  signal: AbortSignal;
}
