import assert from "node:assert/strict";
import { type Message, normalizeMessages } from "../../core/chat.ts";
import { pairOf } from "../../data/pair.ts";
import { parseScenario } from "../../data/scenario.ts";
import { traceOf } from "../../data/trace.ts";
import { testGroup, type TestMember } from "../rollout/group_testing.ts";
import type { Group } from "../trajectory/group.ts";
import type { Trajectory, VerificationRecord } from "../trajectory/trajectory.ts";
import { type CollectionRules, type PairRow, TraceCollector, type TraceRow } from "./collect.ts";

const PLACE = { path: "rows.jsonl", line: 1 };
const SCENARIO = parseScenario({ id: "s0", user: "q" }, PLACE);
const VERIFIED = parseScenario(
  { id: "s0", user: "q", metadata: { env: { verify: { command: ["true"] } } } },
  PLACE,
);
const EXITED: VerificationRecord = { ended: "exited", code: 0, output: "", capped: false };
const PROMPT: Message[] = [{ role: "system", content: "Use tools.\u0000" }, {
  role: "user",
  content: "17 + 25?",
}];

/** A group whose members have a conversation of their own, and changes by member. */
function group(members: TestMember[], changes: Partial<Trajectory>[] = []): Group {
  const made = testGroup(members);
  made.prompt_messages = PROMPT;
  made.members.forEach((member, i) => {
    member.messages = [...PROMPT, { role: "assistant", content: `answer ${i}` }];
    Object.assign(member, changes[i]);
  });
  return made;
}

function take(taken: Group, rules: Partial<CollectionRules> = {}, scenario = SCENARIO) {
  const collector = new TraceCollector({ rows: "traces", keep: 2, min_reward: null, min_gap: 0, ...rules });
  const { rows, ...rest } = collector.take(taken, scenario);
  return { kept: rows.map(({ member }) => member.member), rows: rows.map(({ row }) => row), ...rest };
}

const graded = (...rewards: number[]): TestMember[] => rewards.map((terminal) => ({ terminal }));

Deno.test("the best rewards are kept, of equal ones the shortest, then the first, and at most so many", () => {
  const members = [
    { terminal: 0.5, turn_tokens: [2] },
    { terminal: 1, turn_tokens: [5] },
    { terminal: 1, turn_tokens: [3] },
    { terminal: 1, turn_tokens: [3] },
    { terminal: 0 },
  ];
  const { kept, lost, report } = take(group(members), { keep: 3 });
  assert.deepEqual(kept, [2, 3, 1]);
  assert.deepEqual(lost, { low_reward: 1, above_keep: 1 });
  assert.deepEqual(report, { attempts: 5, passes: 4, kept: 3, pass_rate: 0.8 });
  assert.deepEqual(take(group(members), { keep: 9 }).kept, [2, 3, 1, 0]);
});

Deno.test("only attempts that finish cleanly are kept, and each other one has its reason", () => {
  const failure = { boundary: "environment" as const, message: "it broke" };
  const members: TestMember[] = [
    { stop_reason: "max_turns", step_rewards: [1] },
    { stop_reason: "environment_failed" },
    { terminal: 1 },
    { terminal: 1, stop_reason: "tool_failed" },
    { terminal: 1, stop_reason: "submitted" },
  ];
  const call = { malformed: true, failure: null };
  const { kept, lost } = take(group(members, [
    {},
    { failure },
    { malformed_calls: 1 },
    { malformed_calls: 1, turns: [{ calls: [call] }] as unknown as Trajectory["turns"] },
  ]));
  assert.deepEqual(kept, [4]);
  assert.deepEqual(lost, { max_turns: 1, verify_failed: 1, malformed_call: 2 });
});

Deno.test("where a scenario has a verification, a trace has passed it, whatever else gave rewards", () => {
  const members = graded(1, 1, 1);
  const failed = { ...EXITED, code: 1 };
  const changes = [{ verification: failed }, { verification: EXITED }];
  const { kept, lost } = take(group(members, changes), {}, VERIFIED);
  assert.deepEqual(kept, [1, 2]);
  assert.deepEqual(lost, { not_verified: 1 });
  const by_judge = { ...group(members), graded_by: "judge" as const };
  assert.deepEqual(take(by_judge, {}, VERIFIED).lost, { not_verified: 3 });
  assert.deepEqual(take(by_judge).kept, [0, 1]);
});

Deno.test("--min-reward replaces the rule that a reward is above 0", () => {
  const members = group(graded(-1, 0, 0.5, 0.6));
  assert.deepEqual(take(members).kept, [3, 2]);
  assert.deepEqual(take(members, { min_reward: 0.6 }).kept, [3]);
  assert.deepEqual(take(members, { min_reward: -0.5, keep: 9 }).kept, [3, 2, 1]);
});

Deno.test("a conversation is written once, within a scenario and over all", () => {
  const collector = new TraceCollector({ rows: "traces", keep: 2, min_reward: null, min_gap: 0 });
  const same = { messages: [...PROMPT, { role: "assistant" as const, content: "42" }] };
  const first = collector.take(group(graded(1, 1, 1), [same, same]), SCENARIO);
  assert.deepEqual(first.rows.map(({ member }) => member.member), [0, 2]);
  assert.deepEqual(first.lost, { identical: 1 });
  assert.deepEqual(collector.take(group(graded(1), [same]), SCENARIO).lost, { identical: 1 });
});

Deno.test("a trace's row is read again without loss", () => {
  const messages: Message[] = [
    ...PROMPT,
    {
      role: "assistant",
      content: "I add.\n",
      reasoning_content: "17 + 25",
      tool_calls: [{
        id: "call_0_0",
        type: "function",
        function: { name: "write_file", arguments: { path: 'ä "b"\n', 1: [1.5, null, { deep: "\u2028" }] } },
      }],
    },
    { role: "tool", content: "", tool_call_id: "call_0_0", name: "write_file" },
    { role: "assistant", content: "42" },
  ];
  const tools = [{ name: "write_file", description: "Write.", parameters: { type: "object", z: 1, a: 2 } }];
  const [row] = take({ ...group(graded(1), [{ messages }]), tools }).rows as TraceRow[];
  assert.deepEqual(row!.toolset, { name: "test", version: "1" });
  assert.equal(typeof row!.messages[2]!.tool_calls![0]!.function.arguments, "string");
  const read = traceOf(JSON.parse(JSON.stringify(row)), PLACE);
  assert.ok("messages" in read.content);
  const again = normalizeMessages(read.content.messages);
  // The text too, because the order of keys becomes part of a prompt.
  assert.equal(JSON.stringify(again), JSON.stringify(messages));
  assert.equal(
    JSON.stringify(read.tools),
    JSON.stringify(tools.map((tool) => ({ type: "function", function: tool }))),
  );
});

Deno.test("a pair is the best trace against the worst graded attempt", () => {
  const members: TestMember[] = [
    { terminal: 0.5 },
    { terminal: 0, turn_tokens: [2] },
    { terminal: 0, turn_tokens: [4] },
    { terminal: 1 },
    { stop_reason: "max_turns" },
  ];
  const { rows, report, lost } = take(group(members), { rows: "pairs", min_gap: 1 });
  const [row] = rows as PairRow[];
  assert.deepEqual(row, {
    prompt: PROMPT,
    chosen: [{ role: "assistant", content: "answer 3" }],
    rejected: [{ role: "assistant", content: "answer 2" }],
    tools: [],
    toolset: { name: "test", version: "1" },
  });
  const { content, tools } = pairOf(JSON.parse(JSON.stringify(row)), PLACE);
  assert.deepEqual({ ...content, tools, toolset: row!.toolset }, row);
  assert.deepEqual([report.kept, lost], [1, {}]);
});

Deno.test("attempts with other prompts, to which their environments added, are no pair", () => {
  const started = (
    text: string,
  ) => [PROMPT[0]!, { ...PROMPT[1]!, content: text }, { role: "assistant" as const, content: text }];
  const changes = ["a", "b", "a"].map((text) => ({ messages: started(text) }));
  const { rows } = take(group(graded(1, 0, 0.5), changes), { rows: "pairs" });
  const [{ prompt, rejected }] = rows as [PairRow];
  assert.deepEqual([prompt[1]!.content, rejected[0]!.content], ["a", "a"]);
  assert.deepEqual(take(group(graded(1, 0), changes), { rows: "pairs" }).lost, { small_gap: 1 });
});

Deno.test("a scenario without two different rewards, or without a clean trace, has no pair", () => {
  const pairs = { rows: "pairs" as const };
  assert.deepEqual(take(group(graded(1, 1)), pairs).lost, { small_gap: 1 });
  assert.deepEqual(take(group(graded(1, 0.5)), { ...pairs, min_gap: 0.6 }).lost, { small_gap: 1 });
  assert.deepEqual(take(group(graded(0, -1)), pairs).lost, { no_trace: 1 });
  // What is rejected may be malformed; what is chosen may not.
  const malformed = { malformed_calls: 1 };
  assert.deepEqual(take(group(graded(1, 0), [{}, malformed]), pairs).kept, [0]);
  assert.deepEqual(take(group(graded(1, 0), [malformed]), pairs).lost, { no_trace: 1 });
});
