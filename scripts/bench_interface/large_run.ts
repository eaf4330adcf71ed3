/** An observe directory of a long run, without training it. */

import { join } from "node:path";
import type { z } from "zod";
import {
  type groupFactsSchema,
  type memberFactsSchema,
  OBSERVE_FORMAT,
  type observedUpdateSchema,
} from "../../agent/results/observed.ts";

/** How large it is. */
export interface LargeRun {
  updates: number;
  metrics: number;
  /** Of the last update, which alone has attempts. */
  groups: number;
  attempts_per_group: number;
}

const TIMINGS = {
  ...{ queue_ms: 1, acquire_ms: 2, generate_ms: 3000, tools_ms: 40, reward_ms: 50, rollout_ms: 3100 },
};

/** A reward of an attempt: half of them pass. */
const rewardOf = (group: number, member: number) => (group + member) % 2;

function memberFacts(group: number, member: number): z.input<typeof memberFactsSchema> {
  const reward = rewardOf(group, member);
  return {
    ...{ member, stop_reason: "submitted", status: "kept", failure: null, attribution: null },
    turns: [{ turn: 0, calls: 1, reward: 0, started_ms: 1, generate_ms: 3000, tools_ms: 40 }],
    ...{ tokens: 300, action_tokens: 100, step_rewards: [0], terminal_reward: reward, total_reward: reward },
    ...{ turn_advantages: [reward - 0.5], advantage: reward - 0.5, judge_score: null, verification: null },
    ...{ malformed_calls: 0, deterministic: true, timings: TIMINGS },
  };
}

function groupFacts(
  group: number,
  { updates, attempts_per_group }: LargeRun,
): z.input<typeof groupFactsSchema> {
  return {
    ...{ update: updates, scenario: `scenario-${group}`, line: group + 1, status: "kept" },
    ...{ toolset: { name: "files", version: "1" }, graded_by: "environment" },
    members: Array.from({ length: attempts_per_group }, (_, member) => memberFacts(group, member)),
  };
}

/** A metric's value: a wave that gets smaller, so that every chart has a line to look at. */
const valueOf = (metric: number, update: number) =>
  Math.sin(update / (10 + metric)) * Math.exp(-update / 1000) + metric / 100;

/** The metrics of an update: `reward/mean`, and the others in sections of ten. */
function metricsOf(update: number, { metrics }: LargeRun): Record<string, number> {
  const names = Array.from(
    { length: metrics },
    (_, i) => i === 0 ? "reward/mean" : `section${Math.floor(i / 10)}/metric${i}`,
  );
  return Object.fromEntries(names.map((name, i) => [name, valueOf(i, update)]));
}

function indexLine(update: number, run: LargeRun): z.input<typeof observedUpdateSchema> {
  const { updates, groups, attempts_per_group } = run, has_groups = update === updates;
  const count = has_groups ? groups * attempts_per_group : 0;
  const indexed = Array.from({ length: has_groups ? groups : 0 }, (_, group) => ({
    ...{ group, scenario: `scenario-${group}`, line: group + 1, status: "kept" as const, failed: 0 },
    ...{ attempts: attempts_per_group, passes: Math.floor(attempts_per_group / 2), reward_mean: 0.5 },
  }));
  return {
    ...{ format: OBSERVE_FORMAT, update, time: new Date(update * 60_000).toISOString() },
    ...{ file: `update_${String(update).padStart(6, "0")}.jsonl`, run_name: "a long run" },
    ...{ algorithm: "agent_grpo", updates, step: update, deterministic: true, groups: indexed },
    ...{ trajectories: count, kept: count, reward_min: 0, reward_mean: 0.5, reward_max: 1 },
    ...{ metrics: metricsOf(update, run), texts_kept: false },
  };
}

function linesOf(values: readonly unknown[]): string {
  return values.map((value) => `${JSON.stringify(value)}\n`).join("");
}

/** Writes it into an existing folder, for `svc-server view`. */
export async function writeLargeRun(folder: string, run: LargeRun): Promise<void> {
  const index = Array.from({ length: run.updates }, (_, i) => indexLine(i + 1, run));
  const facts = Array.from({ length: run.groups }, (_, group) => ({ group, facts: groupFacts(group, run) }));
  await Deno.writeTextFile(join(folder, index.at(-1)!.file), linesOf(facts));
  await Deno.writeTextFile(join(folder, "index.jsonl"), linesOf(index));
}
