import { deepEqual, equal, ok } from "node:assert/strict";
import { join } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { finishGroups } from "../rollout/finish_groups.ts";
import { rewardedGroup, testGroup } from "../rollout/group_testing.ts";
import { FragmentRecorder } from "../trajectory/fragments.ts";
import type { Group } from "../trajectory/group.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import { keepsTexts, type ObserveOptions, ObserveWriter, readIndex } from "./observe.ts";
import { groupTextsSchema, memberFactsSchema } from "./observed.ts";
import { MAX_TASK_CHARS } from "./observe_lines.ts";
import { capText } from "./observe_texts.ts";
import { MAX_LINE_DEPTH, MAX_OBSERVED_LINE_BYTES, readLine, scanLines } from "./observed_file.ts";

function finished(...groups: Group[]): Group[] {
  finishGroups(groups, { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" });
  return groups;
}

async function inDirectory(use: (options: ObserveOptions) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const tokenText = (id: number) => `t${id}`;
    const common = { run_name: "test", algorithm: "sft", every: 1, updates: 10, max_text_chars: 0 };
    const options = { ...common, clock: new ManualClock(), tokenText };
    await use({ ...options, directory: join(directory, "made", "trajectories") });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function test(name: string, use: (options: ObserveOptions) => Promise<void>): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => inDirectory(use) });
}

// deno-lint-ignore no-explicit-any -- lines of several forms
type Line = any;

async function linesOf({ directory }: ObserveOptions, update: number): Promise<Line[]> {
  const name = `update_${String(update).padStart(6, "0")}.jsonl`;
  const text = await Deno.readTextFile(join(directory, name));
  return text.trimEnd().split("\n").map((line) => JSON.parse(line));
}

test("an update is a line of facts for each group, then texts, then tokens; and a line of the index", async (options) => {
  const writer = await ObserveWriter.open(options);
  const groups = finished(
    testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "timeout" }]),
    rewardedGroup([1, 1], 1),
  );
  groups[0]!.members[1]!.assessment = { score: 0.25, explanation: "half right" };
  await writer.write(1, groups, { metrics: { "reward/mean": 0.75 }, step: 3 });
  const lines = await linesOf(options, 1);
  deepEqual(
    lines.map(({ group, member, start, ...more }) => [group, member, start, Object.keys(more)[0]]),
    [
      ...[0, 1].map((group) => [group, undefined, undefined, "facts"]),
      ...[[0, undefined], [0, 0], [0, 1], [0, 2], [1, undefined], [1, 0], [1, 1]]
        .map(([group, member]) => [group, member, undefined, "texts"]),
      ...[[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]].map(([group, member]) => [group, member, 0, "part"]),
    ],
  );
  const [{ facts }] = lines;
  deepEqual({ ...facts, members: facts.members.length }, {
    ...{ update: 1, scenario: "s0", line: 1, toolset: { name: "test", version: "1" } },
    ...{ graded_by: "environment", status: "kept", members: 3 },
  });
  const { timings, ...member } = facts.members[1];
  deepEqual(member, {
    ...{ member: 1, stop_reason: "completed", status: "kept", failure: null, attribution: null },
    ...{ tokens: 5, action_tokens: 2 },
    turns: [{ turn: 0, calls: 0, reward: 0, started_ms: 0, generate_ms: 0, tools_ms: 0 }],
    ...{ step_rewards: [0], terminal_reward: 0, total_reward: 0, turn_advantages: [-1], advantage: -1 },
    ...{ judge_score: 0.25, verification: null, malformed_calls: 0 },
    ...{ deterministic: true, sandbox_lost: false },
  });
  deepEqual(Object.keys(timings), Object.keys(groups[0]!.members[0]!.timings));
  deepEqual(lines[2].texts, {
    task: { user: "q", system: null, metadata: {} },
    tools: [],
    prompt_messages: [{ role: "user", content: "q" }],
  });
  deepEqual(lines[4].texts, {
    messages: [{ role: "user", content: "q" }],
    turns: [{ text: "turn 0", calls: [], start: 3, end: 5 }],
    judge_explanation: "half right",
    verification_output: null,
    fragments: [5],
    spans: [{ start: 0, end: 3, origin: "prompt" }, { start: 3, end: 5, origin: "model" }],
  });
  const { texts, ...part } = lines[9].part;
  deepEqual(part, groups[0]!.members[0]!.fragments[0]);
  deepEqual(texts, ["t1", "t2", "t3", "t10", "t11"]);
  const indexed = (group: number, more: object) => (
    { group, scenario: `s${group}`, line: group + 1, failed: 0, ...more }
  );
  deepEqual(await readIndex(options.directory), {
    updates: [{
      ...{ format: 2, update: 1, time: "2026-01-01T00:00:00.000Z", file: "update_000001.jsonl" },
      ...{ run_name: "test", algorithm: "sft", updates: 10, step: 3, deterministic: true },
      groups: [
        indexed(0, { status: "kept", attempts: 3, passes: 1, reward_mean: 1 / 3 }),
        indexed(1, { status: "degenerate", attempts: 2, passes: 2, reward_mean: 1 }),
      ],
      ...{ trajectories: 5, kept: 4, reward_min: 0, reward_mean: 0.6, reward_max: 1 },
      metrics: { "reward/mean": 0.75 },
      texts_kept: true,
    }],
    skipped_lines: 0,
  });
});

test("facts of earlier programs, which lack a field, are read", async (options) => {
  const writer = await ObserveWriter.open(options);
  await writer.write(1, finished(rewardedGroup([1])), { metrics: {}, step: 1 });
  const [{ facts }] = await linesOf(options, 1);
  const { attribution: _, sandbox_lost: __, ...earlier } = facts.members[0];
  deepEqual(memberFactsSchema.parse(earlier), { ...earlier, attribution: null, sandbox_lost: false });
  deepEqual(groupTextsSchema.parse({ tools: [], prompt_messages: [] }).task, null);
});

test("a task is recorded up to its longest length, and the rest of its line in any case", async (options) => {
  const group = finished(rewardedGroup([1]))[0]!;
  const empty = JSON.stringify({ user: "", system: null, metadata: {} }).length;
  const recorded = async (chars: number) => {
    const task = { user: "x".repeat(chars - empty), system: null, metadata: {} };
    await (await ObserveWriter.open(options)).write(1, [{ ...group, task }], { metrics: {} });
    const { texts } = (await linesOf(options, 1)).find(({ texts }) => texts);
    deepEqual(texts.prompt_messages, group.prompt_messages);
    return texts.task?.user.length ?? null;
  };
  equal(await recorded(MAX_TASK_CHARS), MAX_TASK_CHARS - empty);
  equal(await recorded(MAX_TASK_CHARS + 1), null);
});

test("positions of turns and spans count over all fragments, and a long fragment has several parts", async (options) => {
  const group = finished(rewardedGroup([1, 0]))[0]!;
  const [long, split] = group.members as [Trajectory, Trajectory];
  const recorder = new FragmentRecorder(Array.from({ length: 928 }, (_, i) => i));
  recorder.addSampled(0, Array.from({ length: 200 }, (_, i) => i), Array.from({ length: 200 }, (_, i) => -i));
  recorder.add("tool", [7]);
  recorder.addSampled(1, [8], [-0.5]);
  long.fragments = recorder.fragments;
  const two = new FragmentRecorder([1, 2]);
  two.addSampled(0, [10], [-1]);
  two.restart([1, 2, 3]);
  two.addSampled(1, [11, 12], [-2, -3]);
  split.fragments = two.fragments;
  split.turns = [0, 1].map((turn) => ({
    ...split.turns[0]!,
    turn,
    fragment: turn,
    start: 2 + turn,
    end: 3 + 2 * turn,
  }));
  await (await ObserveWriter.open(options)).write(1, [group], { metrics: {} });
  const lines = await linesOf(options, 1);
  const [a, b, c, d] = lines.filter(({ part }) => part);
  deepEqual([a, b, c, d].map(({ member, start }) => [member, start]), [[0, 0], [0, 1024], [1, 0], [1, 3]]);
  deepEqual(a.part.spans, [{ start: 0, end: 928, origin: "prompt" }, {
    start: 928,
    end: 1024,
    origin: "model",
  }]);
  deepEqual(b.part.spans, [
    { start: 0, end: 104, origin: "model" },
    { start: 104, end: 105, origin: "tool" },
    { start: 105, end: 106, origin: "model" },
  ]);
  deepEqual(b.part.sampled.sampler_logprobs, [...Array.from({ length: 104 }, (_, i) => -96 - i), -0.5]);
  deepEqual(b.part.sampled.turns, [...Array.from({ length: 104 }, () => 0), 1]);
  const { texts } = lines.find((line) => line.texts && line.member === 1);
  deepEqual(texts.fragments, [3, 5]);
  deepEqual(texts.turns.map((turn: Line) => [turn.start, turn.end]), [[2, 3], [6, 8]]);
  deepEqual(texts.spans, [
    { start: 0, end: 2, origin: "prompt" },
    { start: 2, end: 3, origin: "model" },
    { start: 3, end: 6, origin: "prompt" },
    { start: 6, end: 8, origin: "model" },
  ]);
});

Deno.test("the rule keeps the first of every stretch, and the last", () => {
  const kept = (every: number, updates: number | null) =>
    Array.from({ length: 12 }, (_, i) => i + 1).filter((update) => keepsTexts(update, { every, updates }));
  deepEqual(kept(1, 12), Array.from({ length: 12 }, (_, i) => i + 1));
  deepEqual(kept(5, 12), [1, 6, 11, 12]);
  deepEqual(kept(5, null), [1, 6, 11]);
});

test("texts are removed when the next update is written, and the newest update always has its texts", async (options) => {
  const writer = await ObserveWriter.open({ ...options, every: 3 });
  const groups = finished(rewardedGroup([1, 0]));
  const kept = async () => (await readIndex(options.directory)).updates.map(({ texts_kept }) => texts_kept);
  for (let update = 1; update <= 3; update++) await writer.write(update, groups, { metrics: {} });
  deepEqual(await kept(), [true, false, true]);
  const stripped = await linesOf(options, 2);
  deepEqual(stripped.map((line) => Object.keys(line)), [["group", "facts"]]);
  const { members } = stripped[0].facts;
  deepEqual(members.map((member: Line) => [member.advantage, member.total_reward]), [[1, 1], [-1, 0]]);
  const resumed = await ObserveWriter.open({ ...options, every: 3 });
  for (let update = 4; update <= 6; update++) await resumed.write(update, groups, { metrics: {} });
  deepEqual(await kept(), [true, false, false, true, false, true], "also across a restart");
});

test("an update that is repeated replaces itself", async (options) => {
  const writer = await ObserveWriter.open(options);
  await writer.write(1, finished(rewardedGroup([1, 0])), { metrics: {} });
  await writer.write(2, finished(rewardedGroup([1, 1])), { metrics: {} });
  const again = await ObserveWriter.open(options);
  await again.write(2, finished(rewardedGroup([0, 0]), rewardedGroup([0, 0], 1)), { metrics: { "a/b": 2 } });
  const { updates } = await readIndex(options.directory);
  deepEqual(updates.map(({ update, reward_mean, groups }) => [update, reward_mean, groups.length]), [[
    1,
    0.5,
    1,
  ], [
    2,
    0,
    2,
  ]]);
  equal((await linesOf(options, 2)).filter(({ facts }) => facts).length, 2);
});

test("an index cut at any byte loses at most its last line, and can be continued", async (options) => {
  const writer = await ObserveWriter.open(options);
  for (let update = 1; update <= 2; update++) {
    await writer.write(update, finished(rewardedGroup([1, 0])), { metrics: {} });
  }
  const path = join(options.directory, "index.jsonl");
  const whole = await Deno.readFile(path);
  const first = whole.indexOf(10) + 1;
  for (let length = first; length < whole.length; length += 7) {
    await Deno.writeFile(path, whole.subarray(0, length));
    const torn = await readIndex(options.directory);
    const complete = length === whole.length - 1;
    deepEqual(torn.updates.map(({ update }) => update), complete ? [1, 2] : [1], `${length}`);
    equal(torn.skipped_lines, length === first || complete ? 0 : 1);
    await (await ObserveWriter.open(options)).write(2, finished(rewardedGroup([1, 1])), { metrics: {} });
    const repaired = await readIndex(options.directory);
    deepEqual(repaired.updates.map(({ update, reward_mean }) => [update, reward_mean]), [[1, 0.5], [2, 1]]);
  }
});

test("an update without a step has the steps of the updates before it", async (options) => {
  const groups = finished(rewardedGroup([1, 0]));
  const write = async (update: number, step?: number) =>
    await (await ObserveWriter.open(options)).write(update, groups, { metrics: {}, step });
  await write(1, 2);
  await write(2);
  await write(3, 6);
  await write(2);
  const { updates } = await readIndex(options.directory);
  deepEqual(updates.map(({ update, step }) => [update, step]), [[1, 2], [2, 2], [3, 6]]);
});

test("no directory, no updates", async ({ directory }) => {
  deepEqual(await readIndex(directory), { updates: [], skipped_lines: 0 });
});

test("texts are cut to their limit, with the number of missing characters", async (options) => {
  const group = finished(rewardedGroup([1, 0]))[0]!;
  const member = group.members[0]!;
  group.task = { user: "q", system: null, metadata: { env: { verify: { command: ["v".repeat(13)] } } } };
  member.messages.push({ role: "tool", content: "x".repeat(30) });
  member.turns[0]!.text = "y".repeat(12);
  member.verification = { ended: "killed", code: null, output: "no", capped: false };
  member.turns[0]!.calls = [{
    index: 0,
    id: "call_0_0",
    name: "say",
    arguments: { deep: ["z".repeat(13)] },
    text: null,
    malformed: false,
    result: "é".repeat(12),
    reward: null,
    done: false,
    failure: null,
    exec_ms: 0,
  }];
  await (await ObserveWriter.open({ ...options, max_text_chars: 12 })).write(1, [group], { metrics: {} });
  const textsOf = async () =>
    (await linesOf(options, 1)).find(({ member, texts }) => texts && member === 0).texts;
  const read = await textsOf(), [{ texts: shared }] = (await linesOf(options, 1)).slice(1);
  deepEqual(shared.task.metadata.env.verify.command, [`${"v".repeat(12)}… [1 more characters]`]);
  equal(read.messages[1]!.content, `${"x".repeat(12)}… [18 more characters]`);
  equal(read.turns[0]!.text, "y".repeat(12));
  deepEqual(read.turns[0]!.calls[0]!.arguments, { deep: [`${"z".repeat(12)}… [1 more characters]`] });
  equal(member.turns[0]!.calls[0]!.result, "é".repeat(12));
  await (await ObserveWriter.open({ ...options, max_text_chars: 1 })).write(1, [group], { metrics: {} });
  const { messages, turns, verification_output } = await textsOf();
  deepEqual(messages.map(({ role }: Line) => role), ["user", "tool"]);
  equal(turns[0]!.calls[0]!.id, "call_0_0");
  equal(turns[0]!.calls[0]!.name, "say");
  equal(verification_output, "n… [1 more characters]");
  ok(capText("a🐢", 2).isWellFormed(), "no half character");
});

test("a line that is read has limits of its bytes and its depth", async ({ directory }) => {
  await Deno.mkdir(directory, { recursive: true });
  const path = join(directory, "lines.jsonl");
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const long = (bytes: number) => JSON.stringify("x".repeat(bytes - 2));
  const lines = [
    nested(MAX_LINE_DEPTH),
    nested(MAX_LINE_DEPTH + 1),
    long(MAX_OBSERVED_LINE_BYTES),
    long(MAX_OBSERVED_LINE_BYTES + 1),
  ];
  await Deno.writeTextFile(path, lines.map((line) => `${line}\n`).join(""));
  using file = await Deno.open(path);
  const read: boolean[] = [];
  for await (const scanned of scanLines(file)) {
    for (const line of scanned) read.push(await readLine(file, line) !== null);
  }
  deepEqual(read, [true, false, true, false]);
});
