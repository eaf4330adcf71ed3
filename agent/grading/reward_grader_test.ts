import { deepEqual, equal, match, rejects } from "node:assert/strict";
import { join } from "node:path";
import type { AgentConfig } from "../../config/schema.ts";
import { ManualClock } from "../../core/clock_fake.ts";
import { parseScenario, readScenarios } from "../../data/scenario.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { composeWorld, type ConfiguredWorld, configuredWorld } from "../configured.ts";
import type { EnvironmentFactory } from "../environment/environment.ts";
import { localEnvironments } from "../environment/local.ts";
import { finishGroups } from "../rollout/finish_groups.ts";
import { firstFailure, lostReasons } from "../rollout/lost.ts";
import { rolloutMetrics } from "../rollout/metrics.ts";
import { earnedReward } from "../rollout/reward.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  type TestRollout,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import type { Group } from "../trajectory/group.ts";
import { environmentGrader } from "./environment_grader.ts";
import { rankingJudge } from "./ranking_judge_fake.ts";
import { rewardGrader } from "./reward_grader.ts";
import { RewardProgram } from "./reward_program.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const never = new AbortController().signal;

/** A shell script that gives each attempt the length of its last message as a reward, or does something else before. */
const byLength = (before = "") => `
while read -r line; do
  id=$(printf %s "$line" | sed 's/^{"id":"\\([^"]*\\)".*/\\1/')
  said=$(printf %s "$line" | sed 's/.*"content":"\\([^"]*\\)"}\\]}$/\\1/')
  ${before}
  echo "{\\"id\\":\\"$id\\",\\"reward\\":\${#said},\\"explanation\\":\\"it says $said\\"}"
done
`;

/** One that gives each attempt its place as a reward, and keeps what it reads in the file `seen`. */
const BY_PLACE = `
n=0
while read -r line; do
  printf '%s\\n' "$line" >> seen
  echo "{\\"id\\":\\"3/0/$n\\",\\"reward\\":$n}"
  n=$((n+1))
done
`;

/** The world of a configuration whose `[agent.reward]` is a shell script. */
async function withReward(
  script: string,
  use: (world: ConfiguredWorld, folder: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (folder) => {
    const workspaces = join(folder, "workspaces");
    await Deno.mkdir(workspaces);
    await Deno.writeTextFile(join(folder, "grade.sh"), script);
    const reward = { command: ["sh", "grade.sh"], timeout_secs: 5, cwd: folder };
    const agent = { reward, mcp_servers: [] } as unknown as AgentConfig;
    const world = configuredWorld({ agent }, { clock: new ManualClock(), workspaces })!;
    try {
      await use(world, folder);
    } finally {
      await world.close();
    }
  });
}

interface Rolled extends TestRollout {
  world: Pick<ConfiguredWorld, "environments" | "graders">;
  /** The turn of each attempt, in the order (scenario, member). */
  turns: string[];
}

/** Groups of two attempts each. */
async function rolled({ world, turns, ...more }: Rolled): Promise<Group[]> {
  let next = 0;
  const engine = new ScriptedEngine({ script: () => turnTokens(turns[next++]!) });
  const { environments: environment, graders } = world;
  return await Array.fromAsync(rolloutGroups(testRollout(engine.client, {
    ...{ environment, graders, group_size: 2, concurrent_rollouts: 1, update: 3 },
    ...more,
  })));
}

const settings = { truncation: "drop", max_dropped_fraction: 1, advantage: "leave_one_out" } as const;

Deno.test("a program alone grades attempts, and its explanations are kept", strict, async () => {
  await withReward(byLength(), async (world) => {
    deepEqual(world.graders.map(({ source }) => source), ["environment", "reward"]);
    const groups = await rolled({ world, turns: ["a", "ccc"] }), [group] = groups;
    finishGroups(groups, settings);
    deepEqual([group!.graded_by, group!.status], ["reward", "kept"]);
    deepEqual(
      group!.members.map(({ terminal_reward, total_reward, advantage, assessment, deterministic }) => (
        { terminal_reward, total_reward, advantage, assessment, deterministic }
      )),
      [
        {
          ...{ terminal_reward: 1, total_reward: 1, advantage: -2, deterministic: true },
          assessment: { score: 1, explanation: "it says a" },
        },
        {
          ...{ terminal_reward: 3, total_reward: 3, advantage: 2, deterministic: true },
          assessment: { score: 3, explanation: "it says ccc" },
        },
      ],
    );
    const metrics = rolloutMetrics(groups, 1);
    deepEqual([metrics["reward/mean"], metrics["reward/failed_fraction"]], [2, 0]);
    deepEqual(Object.keys(metrics).filter((name) => name.startsWith("judge/")), []);
  });
});

Deno.test(
  "a group that the program cannot grade is lost with that reason, and counts as no reward",
  strict,
  async () => {
    const script = byLength(`case "$id" in 3/0/1) echo oops >&2; exit 1;; esac`);
    await withReward(script, async (world) => {
      const scenarios = testScenarios("x", "y"), turns = ["a", "bb", "a", "bb"];
      const groups = await rolled({ world, turns, scenarios }), [lost, kept] = groups;
      finishGroups(groups, settings);
      deepEqual([lost!.graded_by, lost!.status, kept!.status], [null, "ungraded", "kept"]);
      deepEqual(lost!.members.map(earnedReward), [null, null]);
      deepEqual(lost!.members.map(({ deterministic }) => deterministic), [false, false]);
      deepEqual(lostReasons(groups), { reward_failed: 2 });
      deepEqual(firstFailure(groups), {
        ...{ scenario: "x", boundary: "reward" },
        message: "the program exited with status 1 without an answer",
      });
      const metrics = rolloutMetrics(groups, 1);
      deepEqual([metrics["reward/failed_fraction"], metrics["group/dropped_fraction"]], [1 / 2, 1 / 2]);
      await world.close();
      deepEqual(await Array.fromAsync(world.messages), ["the reward program wrote to standard error: oops"]);
    });
  },
);

Deno.test("groups that are lost are counted against max_dropped_fraction", strict, async () => {
  await withReward("exit 1\n", async (world) => {
    const groups = await rolled({ world, turns: ["a", "bb"] });
    const strict = { ...settings, max_dropped_fraction: 0.5 };
    await rejects(async () => finishGroups(groups, await Promise.resolve(strict)), {
      code: "max_dropped_fraction",
      message:
        /2 of 2 trajectories are lost \(2 reward_failed\).*of the reward: the program exited with status 1/,
    });
  });
});

Deno.test('a program that fails ends the run under judge_failure = "fail"', strict, async () => {
  await withReward("echo\n", async (world) => {
    await rejects(rolled({ world, turns: ["a", "bb"], settings: { judge_failure: "fail" } }), {
      code: "judge_failed",
      message: /^Cannot grade the attempts at scenario "s": the program wrote "": it is not JSON/,
    });
  });
});

Deno.test("the environment is asked before the program, and the judge after it", strict, async () => {
  await withReward(byLength(), async ({ graders }) => {
    const judge = rankingJudge(), environments = testEnvironments({ coverage: () => "some" });
    const world = { environments, graders: [environmentGrader(environments), graders[1]!, judge] };
    const stepped = `${callText("reward", { value: 2 })}\n${callText("end")}`;
    const scenarios = testScenarios("stepped", "plain");
    const groups = await rolled({ world, scenarios, turns: [stepped, callText("end"), "a", "bb"] });
    deepEqual(groups.map(({ graded_by }) => graded_by), ["environment", "reward"]);
    deepEqual([judge.inspected, judge.graded], [[], []]);
  });
});

Deno.test("the environment's final state is sent, and one that has none is left out", strict, async () => {
  await withReward(BY_PLACE, async ({ graders }, folder) => {
    const environments = testEnvironments({ coverage: () => "none" });
    const world = { environments, graders: [graders[1]!] };
    const turns = [`${callText("say", { text: "hi" })}\n${callText("end")}`, callText("end")];
    const [group] = await rolled({ world, turns });
    equal(group!.graded_by, "reward");
    const lines = (await Deno.readTextFile(join(folder, "seen"))).trim().split("\n").map((line) =>
      JSON.parse(line)
    );
    const scenario = { id: "s", user: "s", metadata: {} };
    deepEqual(lines.map(({ messages: _, ...rest }) => rest), [
      { id: "3/0/0", scenario, state: ["hi"] },
      { id: "3/0/1", scenario },
    ]);
    deepEqual(lines[0].messages, group!.members[0]!.messages);
  });
});

Deno.test(
  "an attempt that breaks its summary stays in its group, and the program reads that it failed",
  strict,
  async () => {
    await withReward(BY_PLACE, async ({ graders }, folder) => {
      const env = { toolset: "files", files: { "tell.sh": "echo fine\n" }, summary: ["sh", "tell.sh"] };
      const place = { path: "x", line: 1 };
      const scenarios = [parseScenario({ id: "s", user: "u", metadata: { env } }, place)];
      const environments = localEnvironments({
        ...{ allow_unsandboxed: true, tools: { default: "files" }, scenario_toolsets: [] },
        ...{ limits: { exec_timeout_secs: 30 }, clock: new ManualClock(), directory: folder },
        findIsolation: () => Promise.resolve({ isolation: null, reason: "a test" }),
      });
      const world = { environments, graders: [environmentGrader(environments), graders[1]!] };
      const breaking = callText("write_file", { path: "tell.sh", content: "exit 1" });
      const turns = [`${breaking}\n${callText("submit")}`, callText("submit")];
      const groups = await rolled({ world, scenarios, turns });
      await environments.close();
      finishGroups(groups, settings);
      deepEqual(lostReasons(groups), {});
      deepEqual(groups[0]!.members.map(({ total_reward }) => total_reward), [0, 1]);
      const seen = (await Deno.readTextFile(join(folder, "seen"))).trim().split("\n");
      deepEqual(seen.map((line) => JSON.parse(line).state), [
        "(The summary command failed in this attempt's workspace: it exited with status 1.)",
        "fine\n",
      ]);
    });
  },
);

Deno.test("a state that a limit or the end of a sandbox made is marked in the attempt", strict, async () => {
  await withReward(BY_PLACE, async ({ graders }) => {
    const own = testEnvironments({ coverage: () => "none" });
    const found = [{ value: "a", timed_out: true }, { value: "b", sandbox_lost: true }] as const;
    let opened = 0;
    const environments: EnvironmentFactory = {
      ...own,
      async open(...args) {
        const state = found[opened++]!;
        return { ...await own.open(...args), state: () => Promise.resolve(state) };
      },
    };
    const world = { environments, graders: [environmentGrader(environments), graders[1]!] };
    const [group] = await rolled({ world, turns: ["a", "bb"] });
    deepEqual(group!.members.map(({ deterministic, sandbox_lost }) => [deterministic, sandbox_lost]), [
      [false, false],
      [true, true],
    ]);
  });
});

Deno.test("a program that cannot be started fails the run before its rollouts", strict, async () => {
  const clock = new ManualClock();
  const program = new RewardProgram({
    ...{ command: ["no-such-program"], timeout_secs: 1, cwd: "/", clock },
    messages: { push: () => {} },
  });
  await rejects(rewardGrader(program).start!(never), {
    code: "judge_failed",
    message: "Cannot run agent.reward.command: no such program",
  });
  const world = composeWorld({ environments: null, hosts: [], graders: [rewardGrader(program)], clock });
  await world.close();
  await program.close();
});

Deno.test("the example's program grades the example's tasks", strict, async () => {
  const examples = new URL("../../examples/", import.meta.url).pathname;
  const [first] = await readScenarios(join(examples, "tiny_agent_reward_tasks.jsonl"));
  const { id, user, metadata } = first!;
  const program = new RewardProgram({
    command: [Deno.execPath(), "run", "--quiet", "--no-config", "tiny_agent_reward.js"],
    ...{ timeout_secs: 60, cwd: examples, clock: new ManualClock(), messages: { push: () => {} } },
  });
  try {
    const call = { type: "function" as const, function: { name: "write_file", arguments: {} } };
    const attempt = (member: number, state?: string) => ({
      id: `1/0/${member}`,
      scenario: { id, user, metadata },
      messages: [{ role: "assistant" as const, content: "", tool_calls: [call] }],
      ...(state !== undefined && { state }),
    });
    const expected = String(metadata.expected);
    const answers = await program.ask([attempt(0, expected), attempt(1, expected[0]), attempt(2)], never);
    const rewards = [1 - 0.01, 1 / expected.length / 2 - 0.01, -0.01];
    deepEqual(answers.map(({ reward }) => reward), rewards);
    match(answers[0]!.explanation!, /^the file has ".*" after 1 calls$/);
  } finally {
    await program.close();
  }
});
