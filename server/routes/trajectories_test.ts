import assert from "node:assert/strict";
import { HOSTILE, SAMPLE_TASK, sampleGroups, writeObserved } from "../../runs/views/observed_testing.ts";
import { testApp } from "../app_testing.ts";
import { RUN_PATH, sourceOf, withServer } from "../trajectories_testing.ts";

const TRAJECTORIES = `${RUN_PATH}/trajectories`;
const GROUP = `${TRAJECTORIES}/updates/1/groups/0`;

const TIMINGS = { queue_ms: 0, acquire_ms: 0, generate_ms: 0, tools_ms: 0, reward_ms: 0, rollout_ms: 0 };

const FACTS = {
  terminal_reward: 0,
  total_reward: 0,
  malformed_calls: 0,
  deterministic: true,
  sandbox_lost: false,
  timings: TIMINGS,
};

/** The first member of the first sample group, without texts. */
const BEST = {
  ...{
    member: 0,
    stop_reason: "completed",
    status: "kept",
    failure: null,
    attribution: null,
    tokens: 9,
    action_tokens: 5,
  },
  ...{ ...FACTS, terminal_reward: 1, total_reward: 1.5, advantage: 1.2 },
};

const sanitize = { sanitizeOps: true, sanitizeResources: true };

function test(name: string, body: Parameters<typeof withServer>[0]): void {
  Deno.test({ name, ...sanitize, fn: () => withServer(body) });
}

/** All pages of a list. */
async function pages(send: Parameters<Parameters<typeof withServer>[0]>[1], path: string, key: string) {
  const items: unknown[] = [], sizes: number[] = [];
  for (let cursor = "";;) {
    const { json } = await send(`${path}${path.includes("?") ? "&" : "?"}limit=2${cursor}`);
    items.push(...json[key]);
    sizes.push(json[key].length);
    if (json.next_cursor === null) return { items, sizes };
    cursor = `&cursor=${json.next_cursor}`;
  }
}

test("updates are listed newest first, with counts, rewards and metrics", async (directory, send) => {
  await writeObserved(directory, { updates: 3, every: 2 });
  const { json } = await send(TRAJECTORIES);
  assert.deepEqual(json.updates.map(({ update }: { update: number }) => update), [3, 2, 1]);
  assert.deepEqual([json.next_cursor, json.skipped_lines], [null, 0]);
  // Rewards: 1.5, 0, the steps of the truncated one (0), 0 for the failed one, 1, 1.
  assert.deepEqual(json.updates[1], {
    ...{ update: 2, time: "2026-01-01T00:00:00.000Z", step: 4, groups: 2, trajectories: 6, kept: 4 },
    ...{ passes: 3, failed: 1, reward_min: 0, reward_mean: 3.5 / 6, reward_max: 1.5, deterministic: true },
    ...{ texts_kept: false, metrics: { "reward/mean": 0.2 } },
  });
  const { items, sizes } = await pages(send, TRAJECTORIES, "updates");
  assert.deepEqual([items, sizes], [json.updates, [2, 1]]);
});

test("an update has its groups in order, with members and without texts", async (directory, send) => {
  await writeObserved(directory, { updates: 2, every: 5 });
  const { json } = await send(`${TRAJECTORIES}/updates/2`);
  assert.deepEqual([json.next_cursor, json.skipped_lines, json.groups.length], [null, 0, 2]);
  const [{ members, ...group }, second] = json.groups;
  assert.deepEqual(group, {
    ...{ group: 0, scenario: "s0", line: 1, toolset: { name: "test", version: "1" } },
    ...{ graded_by: "environment", status: "kept" },
  });
  assert.deepEqual(members[0], { ...BEST, turns: 2, judge_score: 0.75 });
  assert.deepEqual(members.map(({ sandbox_lost }: typeof BEST) => sandbox_lost), [false, true, false, false]);
  assert.deepEqual(members[3], {
    ...{ member: 3, stop_reason: "tool_failed", status: "failed", tokens: 5, action_tokens: 2, turns: 1 },
    failure: { boundary: "tool", message: "it broke" },
    attribution: "tool",
    ...{ ...FACTS, terminal_reward: null, total_reward: null, advantage: null, judge_score: null },
  });
  assert.deepEqual([second.status, second.members.length], ["degenerate", 2]);
  const paged = await send(`${TRAJECTORIES}/updates/1?limit=1`);
  assert.equal(paged.json.groups.length, 1);
  const rest = await send(`${TRAJECTORIES}/updates/1?limit=1&cursor=${paged.json.next_cursor}`);
  assert.deepEqual([rest.json.groups[0].group, rest.json.next_cursor], [1, null]);
});

test("a group has every text of its members", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  const { json } = await send(GROUP);
  const { members, ...group } = json;
  assert.deepEqual(group, {
    ...{ update: 1, group: 0, scenario: "s0", line: 1, toolset: { name: "test", version: "1" } },
    ...{ graded_by: "environment", status: "kept", texts_kept: true },
    task: SAMPLE_TASK,
    tools: [{ name: "say", description: "Says a text.", parameters: { type: "object" } }],
    ...{ next_cursor: null, skipped_lines: 0 },
  });
  const [best] = sampleGroups(1)[0]!.members;
  const { turns, ...member } = members[0];
  assert.deepEqual(member, {
    ...BEST,
    step_rewards: [0.5, 0],
    judge: { score: 0.75, explanation: "The answer is right." },
    verification: { ended: "exited", code: 0, output: "", capped: false },
    messages: best!.messages,
    fragments: [{ start: 0, end: 9 }],
    spans: [
      { start: 0, end: 3, origin: "prompt" },
      { start: 3, end: 5, origin: "model" },
      { start: 5, end: 6, origin: "tool" },
      { start: 6, end: 9, origin: "model" },
    ],
  });
  const timed = { started_ms: 0, generate_ms: 0, tools_ms: 0 };
  assert.deepEqual(turns[1], {
    ...{ turn: 1, text: "turn 1", calls: [], reward: 0, advantage: 1, start: 6, end: 9, ...timed },
  });
  const { calls: [call], ...turn } = turns[0];
  assert.deepEqual(turn, {
    turn: 0,
    text: "turn 0",
    reward: 0.5,
    advantage: 1.5,
    start: 3,
    end: 5,
    ...timed,
  });
  assert.equal(call.result, HOSTILE);
  assert.deepEqual(Object.entries(call.arguments), [["text", "Hi"], ["__proto__", 1]]);
  assert.deepEqual([call.id, call.name, call.reward, call.exec_ms], ["call_0_0", "say", 0.5, 7]);
  assert.deepEqual(members[3].failure, { boundary: "tool", message: "it broke" });
  const one = await send(`${GROUP}?member=2`);
  assert.deepEqual(one.json.members.map((each: { member: number }) => each.member), [2]);
  const { items, sizes } = await pages(send, GROUP, "members");
  assert.deepEqual([items, sizes], [members, [2, 2]]);
});

test("texts that are not kept are null, and there are no tokens", async (directory, send) => {
  await writeObserved(directory, { updates: 3, every: 5 });
  const { json } = await send(`${TRAJECTORIES}/updates/2/groups/0`);
  assert.deepEqual([json.texts_kept, json.tools, json.task], [false, null, null]);
  const [member] = json.members;
  assert.deepEqual([member.messages, member.spans, member.fragments], [null, null, null]);
  assert.deepEqual(member.judge, { score: 0.75, explanation: null });
  assert.deepEqual(member.verification, { ended: "exited", code: 0, output: null, capped: false });
  assert.deepEqual([member.turns[0].text, member.turns[0].calls, member.turns[0].start], [null, null, null]);
  assert.deepEqual([member.turns[0].reward, member.turns[0].advantage], [0.5, 1.5]);
  for (const path of ["members/0/tokens", "diff?a=0&b=1"]) {
    const { status, json } = await send(`${TRAJECTORIES}/updates/2/groups/0/${path}`);
    assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [
      404,
      "/path/update",
      "not_found",
    ]);
  }
});

test("tokens are those of the fragment, with the values of training", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  const path = `${GROUP}/members/0/tokens`;
  const { json } = await send(path);
  assert.deepEqual([json.next_cursor, json.skipped_lines], [null, 0]);
  assert.deepEqual(json.tokens.map(({ id }: { id: number }) => id), [1, 2, 3, 10, 11, 9, 10, 11, 12]);
  const none = { sampler_logprob: null, trainer_logprob: null, advantage: null, ratio: null, clipped: null };
  assert.deepEqual(json.tokens[0], { id: 1, text: "t1", origin: "prompt", trained: false, ...none });
  assert.deepEqual(json.tokens[5], { id: 9, text: "t9", origin: "tool", trained: false, ...none });
  assert.deepEqual(json.tokens[3], {
    ...{ id: 10, text: "t10", origin: "model", trained: true, sampler_logprob: -1.25, trainer_logprob: -2 },
    ...{ advantage: 1.5, ratio: 1.25, clipped: 1 },
  });
  assert.deepEqual(json.tokens[8], {
    ...{ id: 12, text: "t12", origin: "model", trained: true, sampler_logprob: -1.5, trainer_logprob: -2 },
    ...{ advantage: 1, ratio: 1.25, clipped: 0 },
  });
  const { items, sizes } = await pages(send, path, "tokens");
  assert.deepEqual([items, sizes], [json.tokens, [2, 2, 2, 2, 1]]);
});

test("a difference is the first token and its turn", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  const diff = async (query: string) => (await send(`${GROUP}/diff?${query}`)).json;
  const { a_token, b_token, ...place } = await diff("a=0&b=1");
  assert.deepEqual(place, { a: 0, b: 1, turn: 0, token: 5 });
  assert.deepEqual([a_token.id, a_token.origin, b_token.id, b_token.origin], [9, "tool", 12, "model"]);
  // Member 2 has 1 2 3 10 11, where member 0 goes on.
  const ended = await diff("a=2&b=0");
  assert.deepEqual([ended.token, ended.a_token, ended.b_token.id], [5, null, 9]);
  assert.deepEqual(await diff("a=2&b=3"), {
    ...{ a: 2, b: 3, turn: null, token: null, a_token: null, b_token: null },
  });
});

test("every number in a path or query that names nothing is 404 at its place", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  const updates = `${TRAJECTORIES}/updates`;
  const cases: [string, string][] = [
    ["/v1/runs/run_other/trajectories", "/path/id"],
    ...["2", "0", "01", "-1", "1.0", "1e0", "__proto__", "%00", "９", "9".repeat(400)].map((
      update,
    ): [string, string] => [`${updates}/${encodeURIComponent(decodeURIComponent(update))}`, "/path/update"]),
    [`${updates}/1/groups/2`, "/path/group"],
    [`${updates}/1/groups/constructor`, "/path/group"],
    [`${GROUP}/members/4/tokens`, "/path/member"],
    [`${GROUP}/members/x/tokens`, "/path/member"],
    [`${GROUP}?member=4`, "/query/member"],
    [`${GROUP}/diff?a=0&b=4`, "/query/b"],
    [`${GROUP}/diff?a=9&b=0`, "/query/a"],
  ];
  for (const [path, pointer] of cases) {
    const { status, json } = await send(path);
    assert.deepEqual(
      [status, json.errors[0].pointer, json.errors[0].code],
      [404, pointer, "not_found"],
      path,
    );
  }
  // The resource is looked for before the query is checked.
  assert.equal((await send(`${updates}/7?limit=0`)).status, 404);
});

test("wrong parameters are listed at their places", async (directory, send) => {
  await writeObserved(directory, { updates: 1 });
  const cases: [string, string, string][] = [
    [`${TRAJECTORIES}?limit=0`, "/query/limit", "out_of_range"],
    [`${TRAJECTORIES}?limit=501`, "/query/limit", "out_of_range"],
    [`${TRAJECTORIES}?cursor=!`, "/query/cursor", "invalid_value"],
    [`${TRAJECTORIES}/updates/1?cursor=eA`, "/query/cursor", "invalid_value"],
    [`${GROUP}?cursor=eA`, "/query/cursor", "invalid_value"],
    [`${GROUP}?member=-1`, "/query/member", "out_of_range"],
    [`${GROUP}?member=`, "/query/member", "invalid_value"],
    [`${GROUP}/members/0/tokens?cursor=eA`, "/query/cursor", "invalid_value"],
    [`${GROUP}/diff?a=0`, "/query/b", "missing_field"],
    [`${GROUP}/diff?a=0&b=x`, "/query/b", "invalid_value"],
    [`${TRAJECTORIES}/search?cursor=eA`, "/query/cursor", "invalid_value"],
    [`${TRAJECTORIES}/search?stop_reason=done`, "/query/stop_reason", "invalid_value"],
    [`${TRAJECTORIES}/search?failure=model`, "/query/failure", "invalid_value"],
    [`${TRAJECTORIES}/search?min_reward=`, "/query/min_reward", "invalid_value"],
    [`${TRAJECTORIES}/search?max_reward=1e999`, "/query/max_reward", "invalid_value"],
    [`${TRAJECTORIES}/search?text=`, "/query/text", "invalid_value"],
    [`${TRAJECTORIES}/search?tool=`, "/query/tool", "invalid_value"],
    [`${TRAJECTORIES}/search?tool=${"x".repeat(1001)}`, "/query/tool", "invalid_value"],
    [`${TRAJECTORIES}/search?text=${"x".repeat(1001)}`, "/query/text", "invalid_value"],
    [`${TRAJECTORIES}/search?scenaro=a`, "/query/scenaro", "unknown_field"],
    [`${RUN_PATH}/scenarios?cursor=eA`, "/query/cursor", "invalid_value"],
  ];
  for (const [path, pointer, code] of cases) {
    const { status, json } = await send(path);
    assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [422, pointer, code], path);
  }
});

test("a search finds members by each filter and by all together, in order", async (directory, send) => {
  await writeObserved(directory, { updates: 2 });
  const found = async (query: string) => {
    const { json } = await send(`${TRAJECTORIES}/search?${query}`);
    assert.deepEqual([json.next_cursor, json.skipped_lines], [null, 0]);
    return json.members.map((each: Record<string, unknown>) => `${each.update}/${each.group}/${each.member}`);
  };
  assert.equal((await found("")).length, 12);
  assert.deepEqual(await found("scenario=s1"), ["1/1/0", "1/1/1", "2/1/0", "2/1/1"]);
  assert.deepEqual(await found("scenario=__proto__"), []);
  assert.deepEqual(await found("stop_reason=timeout"), ["1/0/2", "2/0/2"]);
  assert.deepEqual(await found("failure=tool"), ["1/0/3", "2/0/3"]);
  assert.deepEqual(await found("min_reward=1"), ["1/0/0", "1/1/0", "1/1/1", "2/0/0", "2/1/0", "2/1/1"]);
  assert.deepEqual(await found("max_reward=0"), ["1/0/1", "2/0/1"]);
  assert.deepEqual(await found("min_reward=1&max_reward=1.5&scenario=s0"), ["1/0/0", "2/0/0"]);
  for (const text of ["LET ME", "answer is", "<SCRIPT>", "turn 1", "hi", "\ud83d\ude00", "say"]) {
    assert.deepEqual(await found(`text=${encodeURIComponent(text)}`), ["1/0/0", "2/0/0"], text);
  }
  assert.deepEqual(await found("text=let&scenario=s1"), []);
  assert.deepEqual(await found("tool=say"), ["1/0/0", "2/0/0"]);
  assert.deepEqual(await found("tool=say&text=answer&min_reward=1"), ["1/0/0", "2/0/0"]);
  // A tool's name is compared as a whole.
  for (const none of ["tool=sa", "tool=Say", "tool=say&text=nowhere"]) {
    assert.deepEqual(await found(none), [], none);
  }
  const { json } = await send(`${TRAJECTORIES}/search?failure=tool`);
  assert.deepEqual(json.members[0], {
    ...{ update: 1, group: 0, scenario: "s0", member: 3, stop_reason: "tool_failed", status: "failed" },
    ...{
      failure: { boundary: "tool", message: "it broke" },
      attribution: "tool",
      tokens: 5,
      action_tokens: 2,
      turns: 1,
    },
    ...{ ...FACTS, terminal_reward: null, total_reward: null, advantage: null, judge_score: null },
  });
  const { items } = await pages(send, `${TRAJECTORIES}/search?text=q`, "members");
  assert.equal(items.length, 12);
});

Deno.test({
  name: "a run that exports no trajectories has empty lists",
  ...sanitize,
  fn: () =>
    withServer(async (directory) => {
      const source = sourceOf(directory);
      const find = async (id: string) => {
        const run = await source.find(id);
        return run && { ...run, trajectories: null };
      };
      const { send } = testApp({ runs: { find } });
      const nothing = { next_cursor: null, skipped_lines: 0 };
      assert.deepEqual((await send(TRAJECTORIES)).json, { updates: [], ...nothing });
      assert.deepEqual((await send(`${TRAJECTORIES}/search`)).json, { members: [], ...nothing });
      assert.deepEqual((await send(`${RUN_PATH}/scenarios`)).json, { scenarios: [], ...nothing });
      assert.equal((await send(`${TRAJECTORIES}/updates/1`)).status, 404);
      assert.equal((await send(`${RUN_PATH}/scenarios/s0`)).status, 404);
    }),
});
