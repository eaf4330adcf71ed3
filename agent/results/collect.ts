/** Collected traces: which attempts are worth learning from, and the rows of training data that they become. */

import { createHash } from "node:crypto";
import { type ChatMessage, openAiMessages, openAiTool, type ToolDefinition } from "../../core/chat.ts";
import type { Scenario } from "../../data/scenario.ts";
import { brokenBy, type ReasonCounts } from "../rollout/lost.ts";
import { passed } from "../rollout/reward.ts";
import type { Group } from "../trajectory/group.ts";
import { actionTokens, isComplete, isTruncated, type Trajectory } from "../trajectory/trajectory.ts";

/** What is kept. */
export interface CollectionRules {
  /** `traces`: rows for `sft`; `pairs`: one row for `preference` of each scenario. */
  rows: "traces" | "pairs";
  /** The most traces of a scenario. */
  keep: number;
  /** The least total reward of a kept trace; null: any above 0. */
  min_reward: number | null;
  /** The least difference of the rewards of a pair, which always differ. */
  min_gap: number;
}

/** The result of a scenario's attempts, for `--report`. */
export interface CollectionReport {
  attempts: number;
  /** Attempts that passed. */
  passes: number;
  /** Rows that were written. */
  kept: number;
  pass_rate: number;
}

/** A kept attempt and its row. */
export interface CollectedRow {
  /** The attempt whose own turns the row trains. */
  member: Trajectory;
  row: TraceRow | PairRow;
}

/** What the attempts of a row could call. Training reads the tools; the toolset says for people where they are from. */
interface RowTools {
  tools: ToolDefinition[];
  toolset: Group["toolset"];
}

/** A row that `data/trace.ts` reads: the conversation in the OpenAI form. */
export interface TraceRow extends RowTools {
  messages: ChatMessage[];
}

/** A row that `data/pair.ts` reads. */
export interface PairRow extends RowTools {
  prompt: ChatMessage[];
  chosen: ChatMessage[];
  rejected: ChatMessage[];
}

/** What a scenario's attempts gave. */
export interface CollectedScenario {
  rows: CollectedRow[];
  report: CollectionReport;
  /** Attempts, or with pairs the scenario, without a row: counted by reason. */
  lost: ReasonCounts;
}

/**
 * Why an attempt is no trace to learn from. A reason of `brokenBy`, a limit's stop reason, or:
 * `malformed_call`: a call could not be read or executed; `ungraded`: nothing graded it; `not_verified`: its
 * verification did not succeed; `low_reward`.
 */
function flawOf(
  member: Trajectory,
  { group, scenario, min_reward }: { group: Group; scenario: Scenario; min_reward: number | null },
): string | null {
  const { stop_reason, total_reward, verification } = member;
  const broken = brokenBy(member);
  if (broken) return broken;
  // Also where `max_failed_turns` ended it.
  if (member.malformed_calls > 0 && !isTruncated(stop_reason)) return "malformed_call";
  if (!isComplete(stop_reason)) return stop_reason;
  if (total_reward === null) return "ungraded";
  if (verification && verification.code !== 0) return "not_verified";
  if (scenario.env?.verify && group.graded_by !== "environment") return "not_verified";
  const is_enough = min_reward === null ? total_reward > 0 : total_reward >= min_reward;
  return is_enough ? null : "low_reward";
}

/**
 * Chooses rows scenario by scenario. The same groups in the same order give the same rows.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { rewardedGroup } from "../rollout/group_testing.ts";
 *
 * const collector = new TraceCollector({ rows: "traces", keep: 2, min_reward: null, min_gap: 0 });
 * const scenario = { id: "s0", user: "q", system: null, rubric: null, env: null, metadata: {}, line: 1 };
 * const { rows, report } = collector.take(rewardedGroup([0, 1]), scenario);
 * assert.deepEqual(rows[0].row.messages, [{ role: "user", content: "q" }]);
 * assert.deepEqual(report, { attempts: 2, passes: 1, kept: 1, pass_rate: 0.5 });
 * ```
 */
export class TraceCollector {
  /** Digests of the conversations that were written. */
  readonly #written = new Set<string>();

  constructor(readonly rules: CollectionRules) {}

  /** The rows of a scenario's group. */
  take(group: Group, scenario: Scenario): CollectedScenario {
    const lost: ReasonCounts = {};
    const lose = (reason: string) => lost[reason] = (lost[reason] ?? 0) + 1;
    const { min_reward } = this.rules;
    const clean: Trajectory[] = [];
    for (const member of group.members) {
      const flaw = flawOf(member, { group, scenario, min_reward });
      if (flaw === null) clean.push(member);
      else if (this.rules.rows === "traces") lose(flaw);
    }
    clean.sort(byWorth);
    const rows = this.rules.rows === "traces"
      ? this.#traces(clean, group, lose)
      : this.#pair(clean, group, lose);
    const attempts = group.members.length, passes = group.members.filter(passed).length;
    return { rows, lost, report: { attempts, passes, kept: rows.length, pass_rate: passes / attempts } };
  }

  #traces(clean: readonly Trajectory[], group: Group, lose: (reason: string) => void): CollectedRow[] {
    const rows: CollectedRow[] = [];
    for (const member of clean) {
      const row = { messages: openAiMessages(member.messages), ...toolsOf(group) };
      if (rows.length >= this.rules.keep) lose("above_keep");
      else if (!this.#isNew(row)) lose("identical");
      else rows.push({ member, row });
    }
    return rows;
  }

  /** The best trace against the worst complete and graded attempt that began with the same prompt. */
  #pair(clean: readonly Trajectory[], group: Group, lose: (reason: string) => void): CollectedRow[] {
    const [best] = clean;
    const without = (reason: string) => {
      lose(reason);
      return [];
    };
    if (!best) return without("no_trace");
    const prompt_length = group.prompt_messages.length;
    // An environment may add to the prompt of an attempt.
    const promptOf = ({ messages }: Trajectory) => openAiMessages(messages.slice(0, prompt_length));
    const prompt = promptOf(best), prompt_text = JSON.stringify(prompt);
    const worst = group.members.filter((member) =>
      isComplete(member.stop_reason) && member.total_reward !== null &&
      JSON.stringify(promptOf(member)) === prompt_text
    ).sort(byWorth).at(-1)!;
    const gap = best.total_reward! - worst.total_reward!;
    if (gap <= 0 || gap < this.rules.min_gap) return without("small_gap");
    const completion = ({ messages }: Trajectory) => openAiMessages(messages.slice(prompt_length));
    const row = {
      prompt,
      chosen: completion(best),
      rejected: completion(worst),
      ...toolsOf(group),
    };
    if (!this.#isNew(row)) return without("identical");
    return [{ member: best, row }];
  }

  #isNew(row: TraceRow | PairRow): boolean {
    const digest = createHash("sha256").update(JSON.stringify(row)).digest("base64");
    if (this.#written.has(digest)) return false;
    this.#written.add(digest);
    return true;
  }
}

/** The best reward first, then the shortest, then the first. */
function byWorth(a: Trajectory, b: Trajectory): number {
  return b.total_reward! - a.total_reward! || lengthOf(a) - lengthOf(b) || a.member - b.member;
}

/** The model's own tokens; for a hosted model, whose tokens are unknown, the characters of its turns. */
function lengthOf(member: Trajectory): number {
  return member.fragments.length > 0
    ? actionTokens(member)
    : member.turns.reduce((sum, { text }) => sum + text.length, 0);
}

const toolsOf = ({ tools, toolset }: Group): RowTools => ({ tools: tools.map(openAiTool), toolset });
