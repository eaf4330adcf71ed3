/** Splits the groups of an update into the lines of its file ({@link observed.ts}). */

import { attributionOf, brokenBy } from "../rollout/lost.ts";
import { earnedReward, passed } from "../rollout/reward.ts";
import type { Group, Task } from "../trajectory/group.ts";
import {
  actionTokens,
  type Fragment,
  type SampledColumns,
  type TokenSpan,
  type Trajectory,
  type VerificationRecord,
} from "../trajectory/trajectory.ts";
import { capTexts } from "./observe_texts.ts";
import {
  type GroupFacts,
  type IndexedGroup,
  type MemberFacts,
  type MemberTexts,
  PART_TOKENS,
  type TokenPart,
} from "./observed.ts";

/** The longest task that is recorded, in characters of its JSON. */
export const MAX_TASK_CHARS = 1 << 20;

export interface LineOptions {
  /** 0: no limit. */
  max_text_chars: number;
  /** The text of one token. */
  tokenText: (id: number) => string;
}

/** The lines of facts, which are kept for every update. */
function* factsLines(groups: readonly Group[]): Generator<string> {
  for (const group of groups) yield line({ group: group.group, facts: groupFacts(group) });
}

/** All lines: facts, texts, tokens. */
export function* updateLines(groups: readonly Group[], options: LineOptions): Generator<string> {
  yield* factsLines(groups);
  for (const uncapped of groups) {
    const { group, task, tools, prompt_messages, members } = capTexts(uncapped, options.max_text_chars);
    yield line({ group, texts: { task: fitting(task), tools, prompt_messages } });
    for (const member of members) yield line({ group, member: member.member, texts: memberTexts(member) });
  }
  const known = new Map<number, string>();
  const tokenText = (id: number) => {
    const text = known.get(id) ?? options.tokenText(id);
    known.set(id, text);
    return text;
  };
  for (const { group, members } of groups) {
    for (const { member, fragments } of members) {
      let start = 0;
      for (const part of fragments.flatMap((fragment) => [...partsOf(fragment)])) {
        yield line({ group, member, start, part: { ...part, texts: part.tokens.map(tokenText) } });
        start += part.tokens.length;
      }
    }
  }
}

/** A task that a line has room for; null for any other, so that the rest of its line can be read. */
function fitting(task: Task | null): Task | null {
  return JSON.stringify(task).length <= MAX_TASK_CHARS ? task : null;
}

const line = (value: object) => `${JSON.stringify(value)}\n`;

function groupFacts({ update, scenario, line, toolset, graded_by, status, members }: Group): GroupFacts {
  return { update, scenario, line, toolset, graded_by, status, members: members.map(memberFacts) };
}

function memberFacts(trajectory: Trajectory): MemberFacts {
  const { member, stop_reason, status, failure, step_rewards, terminal_reward, total_reward } = trajectory;
  const { turn_advantages, advantage, assessment, malformed_calls, deterministic, timings } = trajectory;
  const { turns, fragments, verification, sandbox_lost } = trajectory;
  return {
    attribution: attributionOf(trajectory),
    ...{ member, stop_reason, status, failure, step_rewards, terminal_reward, total_reward },
    ...{ turn_advantages, advantage, malformed_calls, deterministic, sandbox_lost, timings },
    turns: turns.map(({ turn, calls, reward, started_ms, generate_ms, tools_ms }) => (
      { turn, calls: calls.length, reward, started_ms, generate_ms, tools_ms }
    )),
    tokens: fragments.reduce((sum, { tokens }) => sum + tokens.length, 0),
    action_tokens: actionTokens(trajectory),
    // The file's names are the contract's; a reward program's assessment has them too.
    judge_score: assessment?.score ?? null,
    verification: verification && factsOf(verification),
  };
}

/** A verification without its output. */
function factsOf({ output: _, ...facts }: VerificationRecord): Omit<VerificationRecord, "output"> {
  return facts;
}

function memberTexts({ messages, turns, assessment, verification, fragments }: Trajectory): MemberTexts {
  const starts = startsOf(fragments);
  const moved = ({ start, end, origin }: TokenSpan, by: number) => (
    { start: start + by, end: end + by, origin }
  );
  return {
    messages,
    turns: turns.map(({ text, calls, fragment, start, end }) => (
      { text, calls, start: starts[fragment]! + start, end: starts[fragment]! + end }
    )),
    judge_explanation: assessment?.explanation ?? null,
    verification_output: verification?.output ?? null,
    fragments: fragments.map(({ tokens }) => tokens.length),
    spans: fragments.flatMap(({ spans }, i) => spans.map((span) => moved(span, starts[i]!))),
  };
}

/** The position of each fragment's first token in the list of all tokens. */
function startsOf(fragments: readonly Fragment[]): number[] {
  let start = 0;
  return fragments.map(({ tokens }) => {
    const first = start;
    start += tokens.length;
    return first;
  });
}

/** A fragment in parts of at most {@link PART_TOKENS} tokens. */
function* partsOf({ tokens, spans, sampled }: Fragment): Generator<Omit<TokenPart, "texts">> {
  let column = 0;
  for (let start = 0; start < tokens.length; start += PART_TOKENS) {
    const end = Math.min(start + PART_TOKENS, tokens.length);
    const inside = spans.filter((span) => span.start < end && span.end > start).map((span) => ({
      start: Math.max(span.start, start) - start,
      end: Math.min(span.end, end) - start,
      origin: span.origin,
    }));
    const columns = inside.reduce(
      (sum, span) => sum + (span.origin === "model" ? span.end - span.start : 0),
      0,
    );
    yield {
      tokens: tokens.slice(start, end),
      spans: inside,
      sampled: slicedColumns(sampled, column, column + columns),
    };
    column += columns;
  }
}

function slicedColumns(sampled: SampledColumns, start: number, end: number): TokenPart["sampled"] {
  const sliced = Object.entries(sampled).map(([name, column]) => [name, column.slice(start, end)]);
  return Object.fromEntries(sliced);
}

/** A group as the index has it. */
export function indexedGroup({ group, scenario, line, status, members }: Group): IndexedGroup {
  const rewards = members.map((member) => earnedReward(member) ?? 0);
  return {
    ...{ group, scenario, line, status },
    attempts: members.length,
    passes: members.filter(passed).length,
    failed: members.filter((member) => brokenBy(member) !== null).length,
    reward_mean: rewards.length > 0 ? rewards.reduce((sum, r) => sum + r, 0) / rewards.length : null,
  };
}
