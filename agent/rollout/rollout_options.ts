/** What rollouts take, and the signature of the one function that makes them. */

import type { Clock } from "../../core/clock.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { EngineClient } from "../../trainer/engine/client.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import type { Grader } from "../grading/grader.ts";
import type { ChatFormat } from "./chat_format.ts";

/** The rollout settings of `[agent]`, by their keys. */
export interface RolloutSettings {
  max_turns: number;
  max_new_tokens_per_turn: number;
  /** Length of the whole sequence in tokens, prompt and results included. */
  max_trajectory_tokens: number;
  /** 0: no limit. */
  max_rollout_secs: number;
  end_on_no_tool_call: boolean;
  /** Turns with a malformed call in a row after which the trajectory ends as `tool_failed`; 0: no limit. */
  max_failed_turns: number;
  /** Appended to every system prompt; "" for nothing. */
  system_suffix: string;
  /** What a grader that breaks means: for its group, or for the run. */
  judge_failure: "drop_group" | "fail";
}

/**
 * How tokens are drawn. The key of a turn's random numbers is (seed, domain, update, scenario, member, turn), so neither the order
 * of scenarios nor what else runs changes a trajectory, and an evaluation never draws a training rollout's numbers.
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
  /** Episodes alive at a time. */
  concurrent_rollouts: number;
  settings: RolloutSettings;
  sampling: RolloutSampling;
  /** The engine's name of the policy; null: the base model. */
  adapter: string | null;
  engine: EngineClient;
  chat: ChatFormat;
  environment: EnvironmentFactory;
  /** In the order in which they are asked. */
  graders: readonly Grader[];
  clock: Clock;
  signal: AbortSignal;
}
