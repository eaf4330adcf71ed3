import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { join } from "node:path";
import { ManualClock } from "../../core/clock_fake.ts";
import { finishGroups } from "../rollout/finish_groups.ts";
import { rewardedGroup, testGroup } from "../rollout/group_testing.ts";
import type { Group } from "../trajectory/group.ts";
import { keepsTexts, type ObserveOptions, ObserveWriter, readIndex, readUpdate } from "./observe.ts";
import { capText } from "./observe_texts.ts";

function finished(...groups: Group[]): Group[] {
  finishGroups(groups, { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" });
  return groups;
}

async function inDirectory(use: (options: ObserveOptions) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    const tokenText = (id: number) => `t${id}`;
    const options = { every: 1, updates: 10, max_text_chars: 0, clock: new ManualClock(), tokenText };
    await use({ ...options, directory: join(directory, "made", "trajectories") });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function test(name: string, use: (options: ObserveOptions) => Promise<void>): void {
  Deno.test({ name, sanitizeOps: true, sanitizeResources: true, fn: () => inDirectory(use) });
}

test("written groups are read back completely", async (options) => {
  const writer = await ObserveWriter.open(options);
  const groups = finished(
    testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "timeout" }]),
    rewardedGroup([1, 1], 1),
  );
  await writer.write(1, groups, { "reward/mean": 0.75 });
  const read = await readUpdate(options.directory, 1);
  deepEqual(read.groups.map(({ group }) => group), groups);
  deepEqual(read.groups[0]!.token_texts, { 1: "t1", 2: "t2", 3: "t3", 10: "t10", 11: "t11" });
  deepEqual(await readIndex(options.directory), {
    updates: [{
      format: 1,
      update: 1,
      time: "2026-01-01T00:00:00.000Z",
      file: "update_000001.jsonl",
      groups: 2,
      trajectories: 5,
      kept: 4,
      reward_min: 0,
      reward_mean: 0.6,
      reward_max: 1,
      metrics: { "reward/mean": 0.75 },
      texts_kept: true,
    }],
    skipped_lines: 0,
  });
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
  for (let update = 1; update <= 3; update++) await writer.write(update, groups, {});
  deepEqual(await kept(), [true, false, true]);
  const [stripped] = (await readUpdate(options.directory, 2)).groups;
  equal(stripped!.token_texts, null);
  deepEqual(
    stripped!.group.members.map((member) => [member.messages, member.fragments, member.turns[0]!.text]),
    [
      [[], [], ""],
      [[], [], ""],
    ],
  );
  deepEqual(stripped!.group.members.map(({ advantage, total_reward }) => [advantage, total_reward]), [
    [1, 1],
    [-1, 0],
  ]);
  const resumed = await ObserveWriter.open({ ...options, every: 3 });
  for (let update = 4; update <= 6; update++) await resumed.write(update, groups, {});
  deepEqual(await kept(), [true, false, false, true, false, true], "also across a restart");
});

test("an update that is repeated replaces itself", async (options) => {
  const writer = await ObserveWriter.open(options);
  await writer.write(1, finished(rewardedGroup([1, 0])), {});
  await writer.write(2, finished(rewardedGroup([1, 1])), {});
  const again = await ObserveWriter.open(options);
  await again.write(2, finished(rewardedGroup([0, 0]), rewardedGroup([0, 0], 1)), { "a/b": 2 });
  const { updates } = await readIndex(options.directory);
  deepEqual(updates.map(({ update, reward_mean, groups }) => [update, reward_mean, groups]), [[1, 0.5, 1], [
    2,
    0,
    2,
  ]]);
  equal((await readUpdate(options.directory, 2)).groups.length, 2);
});

test("an index cut at any byte loses at most its last line, and can be continued", async (options) => {
  const writer = await ObserveWriter.open(options);
  for (let update = 1; update <= 2; update++) await writer.write(update, finished(rewardedGroup([1, 0])), {});
  const path = join(options.directory, "index.jsonl");
  const whole = await Deno.readFile(path);
  const first = whole.indexOf(10) + 1;
  for (let length = first; length < whole.length; length += 7) {
    await Deno.writeFile(path, whole.subarray(0, length));
    const torn = await readIndex(options.directory);
    const complete = length === whole.length - 1;
    deepEqual(torn.updates.map(({ update }) => update), complete ? [1, 2] : [1], `${length}`);
    equal(torn.skipped_lines, length === first || complete ? 0 : 1);
    await (await ObserveWriter.open(options)).write(2, finished(rewardedGroup([1, 1])), {});
    const repaired = await readIndex(options.directory);
    deepEqual(repaired.updates.map(({ update, reward_mean }) => [update, reward_mean]), [[1, 0.5], [2, 1]]);
  }
});

test("an incomplete line of an update's file is skipped and counted", async (options) => {
  const writer = await ObserveWriter.open(options);
  await writer.write(1, finished(rewardedGroup([1, 0]), rewardedGroup([1, 0], 1)), {});
  const path = join(options.directory, "update_000001.jsonl");
  await Deno.truncate(path, (await Deno.stat(path)).size - 10);
  const read = await readUpdate(options.directory, 1);
  deepEqual([read.groups.length, read.skipped_lines], [1, 1]);
  await rejects(readUpdate(options.directory, 2), { code: "path_not_found" });
});

test("no directory, no updates", async ({ directory }) => {
  deepEqual(await readIndex(directory), { updates: [], skipped_lines: 0 });
});

test("texts are cut to their limit, with the number of missing characters", async (options) => {
  const group = finished(rewardedGroup([1, 0]))[0]!;
  const member = group.members[0]!;
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
  await (await ObserveWriter.open({ ...options, max_text_chars: 12 })).write(1, [group], {});
  const read = (await readUpdate(options.directory, 1)).groups[0]!.group.members[0]!;
  equal(read.messages[1]!.content, `${"x".repeat(12)}… [18 more characters]`);
  equal(read.turns[0]!.text, "y".repeat(12));
  deepEqual(read.turns[0]!.calls[0]!.arguments, { deep: [`${"z".repeat(12)}… [1 more characters]`] });
  equal(member.turns[0]!.calls[0]!.result, "é".repeat(12));
  await (await ObserveWriter.open({ ...options, max_text_chars: 1 })).write(1, [group], {});
  const least = (await readUpdate(options.directory, 1)).groups[0]!.group;
  const { messages, turns, verification } = least.members[0]!;
  deepEqual([...least.prompt_messages, ...messages].map(({ role }) => role), ["user", "user", "tool"]);
  equal(turns[0]!.calls[0]!.id, "call_0_0");
  equal(turns[0]!.calls[0]!.name, "say");
  deepEqual([verification!.ended, verification!.output], ["killed", "n… [1 more characters]"]);
  ok(capText("a🐢", 2).isWellFormed(), "no half character");
});
