/** Observe directories for tests: written by the run's own writer. */

import { type ObserveOptions, ObserveWriter } from "../../agent/results/observe.ts";
import { rewardedGroup, testGroup } from "../../agent/rollout/group_testing.ts";
import { FragmentRecorder } from "../../agent/trajectory/fragments.ts";
import type { Group } from "../../agent/trajectory/group.ts";
import type { Trajectory } from "../../agent/trajectory/trajectory.ts";
import { type Clock, systemClock } from "../../core/clock.ts";

/** A clock at the start of 2026 that stands still. */
export const STILL_CLOCK: Clock = {
  ...systemClock,
  wall_ms: () => Date.UTC(2026, 0, 1),
  monotonic_ms: () => 0,
};

/** Texts that a page, a log or a parser could trip over. */
export const HOSTILE =
  '<script>alert(1)</script>\u0000\u2028\u202e"\\\n{"group":0,"facts":{}}\r\ud83d\ude00 __proto__ \ud800';

/** The task of the first group of {@link sampleGroups}. */
export const SAMPLE_TASK = {
  user: HOSTILE,
  system: "Be brief.",
  metadata: { env: { verify: { command: ["test", "-e", "done"] } }, ["__proto__"]: { kept: true } },
};

function fillColumns({ fragments }: Trajectory, advantages: readonly number[]): void {
  const { sampled } = fragments[0]!;
  sampled.turns.forEach((turn, k) => {
    sampled.advantages[k] = advantages[turn]!;
    sampled.trainer_logprobs[k] = -2;
    sampled.ratios[k] = 1.25;
    sampled.clipped[k] = k === 0 ? 1 : 0;
    sampled.entropies[k] = 0.5;
    sampled.trained[k] = true;
  });
}

/**
 * Two groups. In the first, member 0 has two turns (tokens 1 2 3 · 10 11 · 9 · 10 11 12) with a call and a judge,
 * member 1 one turn (1 2 3 · 10 11 12) and a container that ended, member 2 ran out of time, and the tool of member 3 failed. The second has two
 * equal members.
 */
export function sampleGroups(update: number): Group[] {
  const first = testGroup([
    { step_rewards: [0.5, 0], turn_tokens: [2, 3], terminal: 1 },
    { turn_tokens: [3], terminal: 0 },
    { stop_reason: "timeout" },
    { stop_reason: "tool_failed" },
  ]);
  const [best, worst, late] = first.members as [Trajectory, Trajectory, Trajectory];
  first.task = SAMPLE_TASK;
  first.tools = [{ name: "say", description: "Says a text.", parameters: { type: "object" } }];
  Object.assign(best, { turn_advantages: [1.5, 1], advantage: 1.2 });
  best.assessment = { score: 0.75, explanation: "The answer is right." };
  best.messages = [
    { role: "user", content: "q" },
    {
      role: "assistant",
      content: "",
      reasoning_content: "Let me say it.",
      tool_calls: [{
        id: "call_0_0",
        type: "function",
        function: { name: "say", arguments: { text: "Hi" } },
      }],
    },
    { role: "tool", content: HOSTILE, tool_call_id: "call_0_0", name: "say" },
    { role: "assistant", content: "Done" },
  ];
  best.turns[0]!.calls = [{
    ...{ index: 0, id: "call_0_0", name: "say", arguments: { text: "Hi", ["__proto__"]: 1 }, text: null },
    ...{ malformed: false, result: HOSTILE, reward: 0.5, done: false, failure: null, exec_ms: 7 },
  }];
  best.verification = { ended: "exited", code: 0, output: "", capped: false };
  Object.assign(worst, { turn_advantages: [-1.5], advantage: -1.5, sandbox_lost: true });
  fillColumns(best, [1.5, 1]);
  fillColumns(worst, [-1.5]);
  late.status = "dropped";
  const second = { ...rewardedGroup([1, 1], 1), status: "degenerate" as const };
  return [first, second].map((group) => ({ ...group, update }));
}

/** Writes updates 1, 2, … with these groups; {@link sampleGroups} by default. */
export async function writeObserved(
  directory: string,
  { updates, groups = sampleGroups, ...more }:
    & { updates: number; groups?: (update: number) => Group[] }
    & Partial<Omit<ObserveOptions, "updates">>,
): Promise<void> {
  const writer = await ObserveWriter.open({
    ...{ directory, run_name: "demo", every: 1, updates: 10, max_text_chars: 0, clock: STILL_CLOCK },
    tokenText: (id) => `t${id}`,
    ...more,
  });
  for (let update = 1; update <= updates; update++) {
    await writer.write(update, groups(update), { metrics: { "reward/mean": update / 10 }, step: 2 * update });
  }
}

/** A group whose members have the tokens 0 to 1028, in two parts each; the last member has 5 instead of 1027. */
export function longGroups(update: number): Group[] {
  const group = rewardedGroup([1, 0]);
  group.members.forEach((member, i) => {
    const recorder = new FragmentRecorder(Array.from({ length: 1027 }, (_, token) => token));
    recorder.addSampled(0, [i === 0 ? 1027 : 5, 1028], [-1, -1]);
    member.fragments = recorder.fragments;
    Object.assign(member.turns[0]!, { start: 1027, end: 1029 });
  });
  return [{ ...group, update }];
}

/** Groups of two scenarios: the second has line 1 and is in even updates, with an id that needs escapes. */
export function scenarioGroupsOf(update: number): Group[] {
  const always = { ...rewardedGroup(update === 1 ? [1, 0] : [1, 1]), line: 2, scenario: "b" };
  const even = { ...rewardedGroup([0, 0, 0.5], 1), line: 1, scenario: "z/ü %2F" };
  return [always, ...(update % 2 === 0 ? [even] : [])].map((group) => ({ ...group, update }));
}
