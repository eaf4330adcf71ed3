/** Hand-made groups for tests, as rollouts return them. */

import { FragmentRecorder } from "../trajectory/fragments.ts";
import type { Group } from "../trajectory/group.ts";
import {
  isFailed,
  isTruncated,
  type StopReason,
  type Trajectory,
  type TurnRecord,
} from "../trajectory/trajectory.ts";

export interface TestMember {
  stop_reason?: StopReason;
  /** One for each turn. Default: none, in one turn. */
  step_rewards?: number[];
  terminal?: number;
  /** Tokens of each turn. Default: 2. */
  turn_tokens?: number[];
}

const TEST_PROMPT = [1, 2, 3];

/** A member as an episode returns it: prompt 1 2 3, turns of tokens 10, 11, …, results of one token 9. */
export function testMember(member: number, options: TestMember = {}): Trajectory {
  const { stop_reason = "completed", step_rewards = [0], terminal = 0 } = options;
  const recorder = new FragmentRecorder(TEST_PROMPT);
  const turns = step_rewards.map((reward, turn): TurnRecord => {
    if (turn > 0) recorder.add("tool", [9]);
    const start = recorder.length;
    const tokens = Array.from({ length: options.turn_tokens?.[turn] ?? 2 }, (_, i) => 10 + i);
    recorder.addSampled(turn, tokens, tokens.map((token) => -token / 8));
    return {
      turn,
      text: `turn ${turn}`,
      calls: [],
      reward,
      fragment: 0,
      start,
      end: recorder.length,
      started_ms: 0,
      generate_ms: 0,
      tools_ms: 0,
    };
  });
  const graded = !isTruncated(stop_reason) && !isFailed(stop_reason);
  return {
    member,
    stop_reason,
    status: isFailed(stop_reason) ? "failed" : "kept",
    failure: isFailed(stop_reason) ? { boundary: "tool", message: "it broke" } : null,
    messages: [{ role: "user", content: "q" }],
    turns,
    step_rewards,
    terminal_reward: graded ? terminal : null,
    verification: null,
    total_reward: graded ? step_rewards.reduce((sum, r) => sum + r, terminal) : null,
    turn_advantages: [],
    advantage: null,
    assessment: null,
    malformed_calls: 0,
    fragments: recorder.fragments,
    deterministic: true,
    sandbox_lost: false,
    timings: { queue_ms: 0, acquire_ms: 0, generate_ms: 0, tools_ms: 0, reward_ms: 0, rollout_ms: 0 },
  };
}

export function testGroup(members: TestMember[], group = 0): Group {
  return {
    update: 1,
    group,
    scenario: `s${group}`,
    line: group + 1,
    task: { user: "q", system: null, metadata: {} },
    toolset: { name: "test", version: "1" },
    tools: [],
    prompt_messages: [{ role: "user", content: "q" }],
    prompt_tokens: TEST_PROMPT,
    graded_by: "environment",
    measures: {},
    status: "kept",
    members: members.map((member, i) => testMember(i, member)),
  };
}

/** A group with a terminal reward for each member and nothing else. */
export const rewardedGroup = (rewards: number[], group = 0): Group =>
  testGroup(rewards.map((terminal) => ({ terminal })), group);
