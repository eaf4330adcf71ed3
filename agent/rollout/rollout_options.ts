/** Options of rollouts. */

import type { Clock } from "../../core/clock.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import type { Grader } from "../grading/grader.ts";
import type { AttemptLimits } from "../recording/tape.ts";
import type { ChatFormat } from "./chat_format.ts";

/** The rollout settings of `[agent]`, by their keys. */
export interface RolloutSettings {
  max_turns: number;
  max_new_tokens_per_turn: number;
  /** Length of the entire sequence in tokens, prompt and results included. */
  max_trajectory_tokens: number;
  /** 0: no limit. */
  max_rollout_secs: number;
  end_on_no_tool_call: boolean;
  /** Consecutive turns with a malformed call after which the trajectory ends as `tool_failed`; 0: no limit. */
  max_failed_turns: number;
  /** Appended to every system prompt; "" for none. */
  system_suffix: string;
  /** Whether a grader that fails drops its group or fails the run. */
  judge_failure: "drop_group" | "fail";
}

/**
 * How tokens are sampled. The random key of a turn is (seed, domain, update, scenario, member, turn). So the order of
 * scenarios and other work never change a trajectory, and evaluations use other numbers than training.
 */
export interface RolloutSampling {
  domain: "train" | "evaluation";
  seed: number;
  /** 0 is greedy. */
  temperature: number;
}

export interface RolloutOptions {
  update: number;
  scenarios: readonly Scenario[];
  group_size: number;
  /** Attempts that run at once. */
  concurrent_rollouts: number;
  settings: RolloutSettings;
  sampling: RolloutSampling;
  /** The engine's name of the policy's adapter; null for the base model. */
  adapter: string | null;
  engine: EngineClient;
  chat: ChatFormat;
  environment: EnvironmentFactory;
  /** In the order in which they are asked. */
  graders: readonly Grader[];
  /** Told of, or decides about, the wall-clock limit of attempts. Absent: only the clock decides. */
  limits?: AttemptLimits | undefined;
  clock: Clock;
  signal: AbortSignal;
}
