/** Where tools have their effects and a task its reward: one environment per trajectory. */

import type { Scenario } from "../../data/scenario.ts";
import type { ToolCatalog, ToolHost } from "../tools/tool_host.ts";
import type { VerificationRecord } from "../trajectory/trajectory.ts";

/** What an environment says of the trajectory in it. */
export interface EnvironmentGrade {
  /** The terminal reward; null when this scenario has nothing to verify, or the verification failed. */
  reward: number | null;
  /** Why the verification tells nothing of the attempt; left out: it does. */
  failure?: string;
  /** A wall-clock limit decided it. */
  timed_out: boolean;
  /** Of a verification by a command. */
  verification?: VerificationRecord;
}

/** One trajectory's environment. */
export interface Environment extends ToolHost {
  /** Grades what the trajectory left behind. @throws {ServiceError} `environment_failed`. */
  grade(signal: AbortSignal): Promise<EnvironmentGrade>;
  /** Gives everything back; never throws, and a second call does nothing. */
  close(): Promise<void>;
}

/** What a run needs to have environments. */
export interface EnvironmentFactory {
  readonly type: "container" | "local" | "http";
  /** What a single tool call may take, whether or not the tool heeds its signal. */
  readonly call_timeout_ms: number;
  /**
   * The tools of a scenario.
   *
   * @throws {ServiceError} `data_invalid`, `not_built`; `environment_failed` when whoever knows them gives no answer.
   */
  catalog(scenario: Scenario): Promise<ToolCatalog>;
  /** Whether the environment itself can tell success from failure on this scenario. */
  canGrade(scenario: Scenario): boolean;
  /** Makes the environment of one trajectory. @throws {ServiceError} `environment_failed`. */
  open(scenario: Scenario, options: OpenOptions): Promise<Environment>;
}

/** What opening an environment takes. */
export interface OpenOptions {
  /** For environments with randomness of their own: a function of (seed, update, scenario, member). */
  seed: number;
  signal: AbortSignal;
}
