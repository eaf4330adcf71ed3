import { deepEqual, equal, match, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine, type ScriptedTurn } from "../../trainer/engine/scripted_engine_fake.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import { environmentGrader } from "../grading/environment_grader.ts";
import type { Grader } from "../grading/grader.ts";
import { rankingJudge } from "../grading/ranking_judge_fake.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  testRollout,
  testScenarios,
  TextChat,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import { fullSchema } from "../tools/arguments.ts";
import type { Group } from "../trajectory/group.ts";
import { recordingTapes } from "./recorder.ts";
import { MAX_RECORDED_LINE_BYTES, recordingPath } from "./recording_file.ts";
import { type Departures, QUOTED_CHARS, replayTapes } from "./replayer.ts";
import type { Tapes } from "./tape.ts";

const NAME = "update_000001";

const [SCENARIO] = testScenarios("say") as [Scenario];
const never = new AbortController().signal;

/** What the model writes by scenario, turn for turn; any other turn submits. */
const TURNS: Record<string, string[]> = {
  say: [callText("say", { text: "hi" }), "word\n" + callText("say", { text: "you" })],
  step: [callText("reward", { value: 0.5 })],
  fail: [callText("fail")],
  hang: [callText("say", { text: "hi" }), callText("hang")],
  twice: [`${callText("say", { text: "hi" })}\n${callText("hang")}`],
};

const scenarioOf = (tokens: readonly number[]) => /u:(\w+)/.exec(new TextChat().decode(tokens))![1]!;

interface RolledOut {
  scenarios: string[];
  environment?: EnvironmentFactory;
  graders?: (environment: EnvironmentFactory) => readonly Grader[];
  max_rollout_secs?: number;
  turns?: typeof TURNS;
  /** Called when a turn begins to be sampled. */
  sampling?: (turn: ScriptedTurn, advance: (ms: number) => void) => "hang" | void;
  /** Milliseconds that pass once a tool hangs. */
  hangs_ms?: number;
}

/** Rolls out with a tape: attempts of two members. */
async function rollOut(tapes: Tapes, options: RolledOut): Promise<Group[]> {
  const { scenarios, max_rollout_secs = 300, turns = TURNS, hangs_ms = 1000 } = options;
  const engine = new ScriptedEngine({
    script(turn) {
      const hangs = options.sampling?.(turn, (ms) => void rollout.clock.advance(ms));
      if (hangs) return hangs;
      return turnTokens(turns[scenarioOf(turn.tokens)]?.[turn.turn] ?? callText("submit"));
    },
  });
  const environment = options.environment ?? testEnvironments({
    log: (event) => {
      if (event.endsWith(" hang")) setTimeout(() => rollout.clock.advance(hangs_ms));
    },
  });
  const rollout = testRollout(engine.client, {
    scenarios: testScenarios(...scenarios),
    group_size: 2,
    environment,
    settings: { max_rollout_secs },
  });
  const tape = await tapes.open(NAME);
  const graders = options.graders?.(environment) ?? [environmentGrader(environment)];
  const world = tape.wrap({ environment, graders });
  try {
    const signal = AbortSignal.any([rollout.signal, tape.departed]);
    const rolled = rolloutGroups({ ...rollout, ...world, limits: tape.limits, signal });
    const groups = await Array.fromAsync(rolled);
    await tape.end(null);
    equal(rollout.clock.sleeping, 0);
    return groups;
  } catch (error) {
    await tape.end(error);
    throw error;
  }
}

/** The test's environments, of which nothing may be used. */
function closed(own: EnvironmentFactory = testEnvironments()): EnvironmentFactory {
  const refuse = () => Promise.reject(new Error("a replay uses nothing of the world"));
  return { ...own, catalog: refuse, catalogs: refuse, open: refuse };
}

/** The groups without the fields that depend on a clock. */
const timeless = (groups: readonly Group[]) =>
  JSON.parse(JSON.stringify(groups, (key, value) => key.endsWith("_ms") ? 0 : value));

const replayed = (folder: string, departures: Departures = "end_run") => replayTapes({ folder, departures });

/** Records and replays, and checks that both have the same groups. */
async function recordAndReplay(
  options: RolledOut & { replay_graders?: RolledOut["graders"] },
): Promise<Group[]> {
  return await withFolder(async (folder) => {
    const recorded = await rollOut(recordingTapes(folder), options);
    const graders = options.replay_graders ?? options.graders;
    const again = await rollOut(replayed(folder), {
      ...options,
      environment: closed(options.environment),
      ...(graders && { graders }),
    });
    deepEqual(timeless(again), timeless(recorded));
    return again;
  });
}

const outcomes = (groups: readonly Group[]) =>
  groups.map(({ members }) => [members[0]!.stop_reason, members[0]!.failure?.message ?? null]);

Deno.test("a rollout is replayed without its world: calls, step rewards, grades", async () => {
  const groups = await recordAndReplay({ scenarios: ["say", "step"] });
  deepEqual(groups.map(({ members }) => members.map(({ total_reward }) => total_reward)), [[2, 2], [
    0.5,
    0.5,
  ]]);
});

Deno.test("what an environment starts with is replayed, and that a failure may not come again", async () => {
  const environment = testEnvironments(), { open } = environment;
  environment.open = async (scenario, options) => {
    const opened = await open(scenario, options);
    const broken = new ServiceError("environment_failed", "Cannot use the server: it is gone", {
      transient: true,
    });
    const call: typeof opened.call = (...asked) =>
      scenario.id === "fail" ? Promise.reject(broken) : opened.call(...asked);
    return { ...opened, observation: { rooms: ["hall"] }, call };
  };
  const groups = await recordAndReplay({ scenarios: ["say", "fail"], environment });
  const [said, failed] = groups.map(({ members }) => members[0]!);
  ok(said!.messages.some(({ role, content }) => role === "user" && content.endsWith('{"rooms":["hall"]}')));
  deepEqual([said!.deterministic, failed!.deterministic], [true, false]);
  deepEqual(failed!.failure, { boundary: "environment", message: "Cannot use the server: it is gone" });
});

Deno.test("arguments are checked in a replay as they were when it was recorded", async () => {
  const environment = testEnvironments(), own = await environment.catalog(SCENARIO, never);
  const tools = own.tools.map((tool) =>
    tool.name === "say" ? { ...tool, parameters: fullSchema(structuredClone(tool.parameters)) } : tool
  );
  environment.catalog = () => Promise.resolve({ ...own, tools });
  const turns = {
    say: [{ text: "a", more: 1 }, { text: 1 }].map((args) => callText("say", args)),
    step: [callText("reward", { value: 1, more: 1 })],
  };
  const groups = await recordAndReplay({ scenarios: ["say", "step"], environment, turns });
  const results = groups.map(({ members: [first] }) =>
    first!.turns.slice(0, -1).flatMap(({ calls }) => calls.map(({ result }) => result))
  );
  // All of a host's schema is checked; of a built-in tool's, an unknown name does not fit either.
  deepEqual(results, [["ok", "error: bad arguments at /text"], ["error: bad arguments"]]);
});

Deno.test("a judge's evidence and grades are replayed, and the judge is not asked", async () => {
  const judge = rankingJudge(), other = rankingJudge({ before: () => Promise.reject(new Error("asked")) });
  other.inspect = () => Promise.reject(new Error("inspected"));
  const groups = await recordAndReplay({
    scenarios: ["say"],
    graders: () => [judge],
    replay_graders: () => [{ ...other, start: () => Promise.reject(new Error("started")) }],
  });
  deepEqual(groups[0]!.graded_by, "judge");
  deepEqual([judge.inspected.length, judge.graded.length], [2, 1]);
  equal(groups[0]!.members[0]!.deterministic, false, "as the judge said");
});

Deno.test("failures are replayed as they were: of tools, of opening and grading, of a judge", async () => {
  deepEqual(outcomes(await recordAndReplay({ scenarios: ["fail"] })), [[
    "tool_failed",
    "Cannot run the tool: it broke",
  ]]);
  const opening = testEnvironments({
    open: () => Promise.reject(new ServiceError("environment_failed", "Cannot set up: no")),
  });
  deepEqual(outcomes(await recordAndReplay({ scenarios: ["say"], environment: opening })), [
    ["environment_failed", "Cannot set up: no"],
  ]);
  const grading = testEnvironments({ grade: () => NaN });
  deepEqual(outcomes(await recordAndReplay({ scenarios: ["say"], environment: grading })), [
    ["environment_failed", "the reward NaN is not a finite number"],
  ]);
  const judge = rankingJudge({ before: () => Promise.reject(new Error("overloaded")) });
  const judged = await recordAndReplay({ scenarios: ["say"], graders: () => [judge] });
  deepEqual(judged[0]!.members[0]!.failure, { boundary: "judge", message: "overloaded" });
});

Deno.test("a call's time limit is replayed as a timeout", async () => {
  const groups = await recordAndReplay({ scenarios: ["hang"] });
  deepEqual(outcomes(groups), [["tool_failed", "the tool gave no answer within 1 s"]]);
  equal(groups[0]!.members[0]!.deterministic, false);
});

Deno.test("an attempt's time limit is replayed where it was met: at a tool, in a turn, between turns", async () => {
  const at_tool = await recordAndReplay({ scenarios: ["hang"], max_rollout_secs: 0.5, hangs_ms: 500 });
  deepEqual(outcomes(at_tool), [["timeout", null]]);
  const second = await recordAndReplay({ scenarios: ["twice"], max_rollout_secs: 0.5, hangs_ms: 500 });
  deepEqual(outcomes(second), [["timeout", null]]);
  const in_turn = await recordAndReplay({
    scenarios: ["say"],
    sampling: ({ turn }, advance) => {
      if (turn === 1) advance(300_000);
    },
  });
  deepEqual(outcomes(in_turn), [["timeout", null]]);
  deepEqual(in_turn[0]!.members[0]!.turns.map(({ calls }) => calls.length), [1, 0]);
  // Without a token: the model hangs.
  let hung = 0;
  const without = await withFolder(async (folder) => {
    const recorded = await rollOut(recordingTapes(folder), {
      scenarios: ["say"],
      sampling: ({ turn }, advance) => {
        if (turn === 0) return;
        if (++hung === 2) setTimeout(() => advance(300_000));
        return "hang";
      },
    });
    const again = await rollOut(replayed(folder), { scenarios: ["say"], environment: closed() });
    deepEqual(timeless(again), timeless(recorded));
    return again;
  });
  deepEqual(without[0]!.members.map(({ turns }) => turns[1]!.end - turns[1]!.start), [0, 0]);
});

Deno.test("a recorded limit cuts a turn after the recorded tokens", async () => {
  const limits = {
    passed: () => {},
    recorded: () => ({ place: "generated" as const, turns: 1, tokens: 5 }),
  };
  const engine = new ScriptedEngine({ script: () => turnTokens(callText("submit")) });
  const [group] = await Array.fromAsync(rolloutGroups({ ...testRollout(engine.client), limits }));
  const [{ stop_reason, turns }] = group!.members as [Group["members"][number]];
  deepEqual([stop_reason, turns[0]!.end - turns[0]!.start], ["timeout", 5]);
});

Deno.test("a call that departs ends the replay, or only its attempt", async () => {
  await withFolder(async (folder) => {
    await rollOut(recordingTapes(folder), { scenarios: ["say", "step"] });
    const other = {
      scenarios: ["say", "step"],
      turns: { ...TURNS, step: [callText("reward", { value: 2 })] },
      environment: closed(),
    };
    await rejects(rollOut(replayed(folder), other), (error: ServiceError) => {
      equal(error.code, "conflict");
      match(error.message, /group 1, member 0: it asks .*"value":2.*recorded one asked .*"value":0\.5/);
      return true;
    });
    const groups = await rollOut(replayed(folder, "fail_attempt"), other);
    deepEqual(groups.map(({ members }) => members.map(({ stop_reason }) => stop_reason)), [
      ["submitted", "submitted"],
      ["environment_failed", "environment_failed"],
    ]);
    match(
      groups[1]!.members[0]!.failure!.message,
      /^Cannot replay update_000001, group 1, member 0: it asks/,
    );
  });
});

Deno.test("a missing answer is named, and so is one that is never asked for", async () => {
  await withFolder(async (folder) => {
    await rollOut(recordingTapes(folder), { scenarios: ["step"] });
    const turns = { step: [...TURNS.step!, callText("say", { text: "more" })] };
    const more = rollOut(replayed(folder), { scenarios: ["step"], environment: closed(), turns });
    await rejects(more, /it asks .*"name":"say".*the recorded one asked \{"op":"call".*"name":"submit"/);
    const failing = { step: [callText("fail")] };
    const fewer = rollOut(recordingTapes(`${folder}/b`), { scenarios: ["step"], turns: failing });
    deepEqual(outcomes(await fewer), [["tool_failed", "Cannot run the tool: it broke"]]);
    const long = { step: [callText("say", { text: "x".repeat(150) })] };
    const asked = rollOut(replayed(folder), { scenarios: ["step"], environment: closed(), turns: long });
    await rejects(asked, RegExp(`it asks .{${QUOTED_CHARS}}…, and`));
    const none = { step: [`plain`] };
    const silent = rollOut(replayed(`${folder}/b`), {
      scenarios: ["step"],
      environment: closed(),
      turns: none,
    });
    await rejects(silent, /member 0: it asks \{"op":"grade"\}, and the recorded one asked \{"op":"call"/);
    const longer = { step: ["x".repeat(300)] };
    const unasked = rollOut(replayed(`${folder}/b`), {
      ...{ scenarios: ["step"], environment: closed(), turns: longer },
    });
    await rejects(unasked, /group 0, member 0: it never asks for \{"op":"call".*"name":"fail"/);
    const unknown = rollOut(replayed(folder), { scenarios: ["say"], environment: closed() });
    await rejects(unknown, /scenario "say" has no tools in the recording/);
    await rejects(replayed(`${folder}/none`).open(NAME), { code: "path_not_found" });
  });
});

Deno.test("an answer that no line can hold fails its attempt", async () => {
  const environment = testEnvironments(), { open } = environment;
  environment.open = async (...args) => ({
    ...await open(...args),
    call: () =>
      Promise.resolve({ result: "x".repeat(MAX_RECORDED_LINE_BYTES / 3), reward: null, done: true }),
  });
  const [[reason, message]] = outcomes(await recordAndReplay({ scenarios: ["say"], environment })) as [
    [string, string],
  ];
  equal(reason, "environment_failed");
  match(message, /^Cannot record the answer to call: it has \d+ characters; set run\.record = false$/);
});

Deno.test("a verification that an attempt broke is replayed without the verification of an untouched workspace", async () => {
  const verification = {
    ended: "timeout" as const,
    code: null,
    output: "oops",
    capped: true,
    tampered: true,
  };
  const own = testEnvironments(), { open } = own;
  const environment: EnvironmentFactory = {
    ...own,
    open: async (...args) => {
      const grade = () => Promise.resolve({ reward: 0, timed_out: true, verification });
      return { ...await open(...args), grade };
    },
  };
  const [group] = await recordAndReplay({ scenarios: ["say"], environment });
  for (const member of group!.members) {
    deepEqual(
      [member.status, member.total_reward, member.deterministic, member.verification],
      ["kept", 0, false, verification],
    );
  }
});

Deno.test("a rollout that fails is recorded up to its failure; a cancelled one is not", async () => {
  await withFolder(async (folder) => {
    const judge = rankingJudge({ before: () => Promise.reject(new Error("overloaded")) });
    const engine = new ScriptedEngine({ script: () => turnTokens(callText("submit")) });
    const failing = async (tapes: Tapes, signal = new AbortController().signal) => {
      const rollout = testRollout(engine.client, { settings: { judge_failure: "fail" }, signal });
      const tape = await tapes.open(NAME), world = tape.wrap({ ...rollout, graders: [judge] });
      const rolled = Array.fromAsync(rolloutGroups({ ...rollout, ...world, limits: tape.limits }));
      return await rolled.catch(async (error) => {
        await tape.end(error);
        throw error;
      });
    };
    const failure = { code: "judge_failed", message: /overloaded/ };
    await rejects(failing(recordingTapes(folder)), failure);
    await rejects(failing(replayed(folder)), failure);
    await Deno.remove(recordingPath(folder, NAME));
    await rejects(failing(recordingTapes(folder), AbortSignal.abort()), { code: "cancelled" });
    ok(!await Deno.stat(recordingPath(folder, NAME)).then(() => true, () => false));
  });
});
