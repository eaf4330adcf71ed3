/** Where tools have their effects and a task its reward: one environment per trajectory. */

import type { ToolFunction } from "../../core/chat.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { VerificationRecord } from "../rollout/trajectory.ts";

/** A call that the model made, parsed and checked against the tool's parameters. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

export interface CallAnswer {
  /** What the model is shown; null: nothing (a call that ends the trajectory). */
  result: string | null;
  /** A step reward. */
  reward: number | null;
  /** The trajectory is over. */
  done: boolean;
}

/** The tools of one scenario, known before any environment is acquired: a group's prompt is rendered from them. */
export interface ToolCatalog {
  name: string;
  version: string;
  tools: ToolFunction[];
}

export interface VerifyAnswer {
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
export interface Environment {
  /** @throws {ServiceError} `tool_failed` when the tool broke; an error that the model may see is a result. */
  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer>;
  /** Grades what the trajectory left behind. @throws {ServiceError} `environment_failed`. */
  verify(signal: AbortSignal): Promise<VerifyAnswer>;
  /** Gives everything back; never throws, and a second call does nothing. */
  close(): Promise<void>;
}

/** What a run needs to have environments. */
export interface EnvironmentFactory {
  readonly type: "container" | "local" | "http";
  /** What a single tool call may take, whether or not the tool heeds its signal. */
  readonly call_timeout_ms: number;
  catalog(scenario: Scenario): ToolCatalog;
  /** Whether the environment itself can tell success from failure on this scenario. */
  canVerify(scenario: Scenario): boolean;
  /** @throws {ServiceError} `environment_failed`. */
  acquire(scenario: Scenario, options: AcquireOptions): Promise<Environment>;
}

export interface AcquireOptions {
  /** For environments with randomness of their own: a function of (seed, update, scenario, member). */
  seed: number;
  signal: AbortSignal;
}
