import assert from "node:assert/strict";
import { ENVIRONMENT_KINDS } from "../config/environments.ts";
import { ENVIRONMENT_TYPES } from "../config/sections/environment.ts";
import type { AgentConfig } from "../config/schema.ts";
import { ManualClock } from "../core/clock_fake.ts";
import { permissionsFor } from "../core/permissions.ts";
import { parseScenario } from "../data/scenario.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";
import {
  type BuiltToolHost,
  composeWorld,
  type ConfiguredWorld,
  configuredWorld,
  listingPermissions,
  type WorldParts,
  worldPermissions,
} from "./configured.ts";
import { CALL_GRACE_MS } from "./environment/local.ts";
import { CALL_TIMEOUT_MS } from "./environment/no_environment.ts";
import { rankingJudge, type RankingJudgeOptions } from "./grading/ranking_judge_fake.ts";
import { finishGroups } from "./rollout/finish_groups.ts";
import { callText, rolloutGroups, TEST_TOOLS, testRollout, turnTokens } from "./rollout/rollout_fake.ts";
import { fakeTool, fakeToolHost } from "./tools/tool_host_fake.ts";

const never = new AbortController().signal;

/** Builds the world of an `[agent]` with these keys. */
function worldOf(agent: object): ConfiguredWorld {
  const clock = new ManualClock();
  return configuredWorld({ agent: agent as AgentConfig }, { clock, workspaces: "/nowhere" })!;
}

const environmentOf = (type: string) => ({
  ...type === "http" ? { base_url: "http://127.0.0.1:1" } : {},
  ...{ type, allow_unsandboxed: true, tools: { default: "files" }, scenario_toolsets: [] },
  limits: { exec_timeout_secs: 7 },
});

Deno.test("a configuration's environments, tools and graders are those of its section", async () => {
  const { environments, graders, close } = worldOf({ environment: environmentOf("local") });
  assert.equal(environments.call_timeout_ms, 7000 + CALL_GRACE_MS);
  const offered = await environments.catalogs(never);
  assert.deepEqual(offered.map(({ name, is_default }) => [name, is_default]), [["files", true]]);
  assert.deepEqual(graders.map(({ source }) => source), ["environment"]);
  await close();
});

Deno.test("where there is no sandbox the keys that attempts can read are named", async () => {
  // Whether bubblewrap is there must not depend on this machine, and is known once for a process.
  const program = `import { configuredWorld } from ${JSON.stringify(import.meta.resolve("./configured.ts"))};
    import { systemClock as clock } from ${JSON.stringify(import.meta.resolve("../core/clock.ts"))};
    import { parseScenario } from ${JSON.stringify(import.meta.resolve("../data/scenario.ts"))};
    Deno.Command = class { output() { throw new Deno.errors.NotFound("no bwrap"); } };
    const agent = {
      environment: ${JSON.stringify(environmentOf("local"))},
      judge: { type: "ruler", base_url: "http://127.0.0.1:1", model: "m", api_key_env: "JUDGE_KEY" },
      collect_api: { api_key_env: "OTHER_KEY" },
      scenario_generation: { api_key_env: "JUDGE_KEY" },
    };
    const world = configuredWorld({ agent }, { clock });
    const scenario = parseScenario({ id: "a", user: "a" }, { path: "s.jsonl", line: 1 });
    const { signal } = new AbortController();
    await (await world.environments.open(scenario, { seed: 1, signal })).close();
    for await (const message of world.messages) { console.log(message); break; }
    Deno.exit(0);`;
  const { stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", program],
    stderr: "inherit",
  }).output();
  assert.match(
    new TextDecoder().decode(stdout),
    /WITHOUT a sandbox.* such as the key in JUDGE_KEY and OTHER_KEY\n$/,
  );
});

Deno.test("a run without rollouts has no environments, and its worker needs nothing for them", () => {
  assert.equal(configuredWorld({}, { clock: new ManualClock() }), null);
  assert.deepEqual(worldPermissions({}, { workspaces: "/w" }), []);
});

Deno.test("a world that runs programs may run them, read everything, and write its workspaces", () => {
  const agent = { environment: environmentOf("local") } as unknown as AgentConfig;
  assert.deepEqual(worldPermissions({ agent }, { workspaces: "/w" }), [
    { read: true, run: true, write: ["/w"] },
  ]);
});

Deno.test("a world with an environment server may connect to it and read its key, and nothing else", () => {
  const addresses = {
    "http://127.0.0.1:8000/a": "127.0.0.1:8000",
    "http://env.example": "env.example:80",
    "https://env.example/": "env.example:443",
    "http://[::1]:7": "[::1]:7",
  };
  for (const [base_url, host] of Object.entries(addresses)) {
    const agent = { environment: { ...environmentOf("http"), base_url } } as unknown as AgentConfig;
    assert.deepEqual(worldPermissions({ agent }, { workspaces: "/w" }), [{ net: [host] }]);
    assert.deepEqual(listingPermissions({ agent }), [{ net: [host] }]);
  }
  const keyed = { ...environmentOf("http"), base_url: "http://[::1]:7", api_key_env: "SVC_KEY" };
  const agent = { environment: keyed } as unknown as AgentConfig;
  assert.deepEqual(worldPermissions({ agent }, { workspaces: "/w" }), [{
    net: ["[::1]:7"],
    env: ["SVC_KEY"],
  }]);
  assert.deepEqual(listingPermissions({ agent }), [{ net: ["[::1]:7"], env: ["SVC_KEY"] }]);
});

Deno.test("a judge may reach its endpoint, read its key's variable and keep its judgements, and nothing else", () => {
  const judge = {
    ...{ type: "ruler", base_url: "https://api.example/v1", model: "m", timeout_secs: 1, permute: true },
    ...{ api_key_env: "JUDGE_KEY", cache_path: "/c/kept.jsonl" },
  };
  const needsOf = (more: object) =>
    worldPermissions({ agent: { judge: { ...judge, ...more } } as unknown as AgentConfig }, {
      workspaces: "/w",
    });
  assert.deepEqual(needsOf({}), [
    { net: ["api.example:443"], env: ["JUDGE_KEY"], read: ["/c/kept.jsonl"], write: ["/c/kept.jsonl"] },
  ]);
  const plain = { base_url: "http://127.0.0.1:8080", api_key_env: undefined, cache_path: undefined };
  assert.deepEqual(needsOf(plain), [{ net: ["127.0.0.1:8080"] }]);
  assert.deepEqual(listingPermissions({ agent: { judge } as unknown as AgentConfig }), []);
  const local = { type: "local", base_url: undefined, api_key_env: undefined };
  assert.deepEqual(needsOf(local), [{ read: ["/c/kept.jsonl"], write: ["/c/kept.jsonl"] }]);
  assert.deepEqual(needsOf({ ...local, cache_path: undefined }), [{}]);
});

Deno.test("a judge grades after the environment and a reward program", async () => {
  for (const kind of [{ type: "ruler", base_url: "http://x", model: "m" }, { type: "local" }]) {
    const judge = { ...kind, timeout_secs: 1, permute: true };
    const world = worldOf({ reward: { command: ["grade"], timeout_secs: 1, cwd: "/" }, judge });
    assert.deepEqual(world.graders.map(({ source }) => source), ["environment", "reward", "judge"]);
    await world.close();
  }
});

Deno.test("a reward program grades after the environment, alone or beside it, and may run", async () => {
  const reward = { command: ["grade"], timeout_secs: 1, cwd: "/" };
  for (const environment of [{}, { environment: environmentOf("local") }]) {
    const agent = { ...environment, reward }, world = worldOf(agent);
    assert.deepEqual(world.graders.map(({ source }) => source), ["environment", "reward"]);
    const { read, run, write } = permissionsFor(
      worldPermissions({ agent: agent as unknown as AgentConfig }, { workspaces: "/w" }),
    );
    assert.deepEqual([read, run, write], [true, true, ["/w"]]);
    await world.close();
  }
});

/** A kind of tool host for each session that a section names in `sessions`. */
const SESSIONS: BuiltToolHost = {
  applies: (agent) => sessionsOf(agent).length > 0,
  open: (agent) =>
    sessionsOf(agent).map((name) => fakeToolHost({ name, tools: [fakeTool(`${name}_search`)] })),
  needs: (agent) => ({ net: sessionsOf(agent).map((name) => `${name}.example:443`) }),
  listing_needs: (agent) => ({ net: sessionsOf(agent).map((name) => `list.${name}.example:443`) }),
};

const sessionsOf = (agent: AgentConfig) => (agent as unknown as { sessions?: string[] }).sessions ?? [];

Deno.test("a kind of tool host adds its tools and its permissions where a section asks for it, and only there", async () => {
  const environment = environmentOf("local");
  const cases = [
    { sessions: ["a", "b"], tools: ["a_search", "b_search"], hosts: ["a.example:443", "b.example:443"] },
    { sessions: [], tools: [], hosts: false },
  ];
  for (const { sessions, tools, hosts } of cases) {
    const agent = { environment, sessions } as unknown as AgentConfig;
    const world = configuredWorld({ agent }, { clock: new ManualClock() }, [SESSIONS])!;
    const [offered] = await world.environments.catalogs(never);
    const names = offered!.tools.map(({ name }) => name);
    assert.deepEqual(names.filter((name) => name.endsWith("_search")), tools);
    const { net, run } = permissionsFor(worldPermissions({ agent }, { workspaces: "/w" }, [SESSIONS]));
    assert.deepEqual([net, run], [hosts, true]);
    await world.close();
  }
});

Deno.test("to list tools needs what the hosts of a section need for it, and nothing for its attempts", () => {
  const needsOf = (sessions: string[]) => {
    const agent = { environment: environmentOf("local"), reward: {}, sessions } as unknown as AgentConfig;
    return permissionsFor(listingPermissions({ agent }, [SESSIONS]));
  };
  assert.deepEqual(needsOf([]), permissionsFor([]));
  assert.deepEqual(needsOf(["a"]), permissionsFor([{ net: ["list.a.example:443"] }]));
  assert.deepEqual(listingPermissions({}, [SESSIONS]), []);
});

Deno.test("MCP servers may be reached or run, and read the variables that they name", () => {
  const remote = { name: "web", url: "https://mcp.example/x", headers: { authorization: "Bearer ${KEY}" } };
  const needsOf = (...mcp_servers: object[]) => {
    const agent = { mcp_servers } as unknown as AgentConfig;
    return permissionsFor(worldPermissions({ agent }, { workspaces: "/w" }));
  };
  const { net, env, run, read, write } = needsOf(remote, { name: "b", url: "http://[::1]:81/" });
  assert.deepEqual([net, env, run, read, write], [
    ["mcp.example:443", "[::1]:81"],
    ["KEY"],
    false,
    false,
    false,
  ]);
  const local = needsOf(remote, { name: "files", command: ["files"], env: { ROOT: "/srv" } });
  assert.deepEqual([local.net, local.run, local.read, local.write], [["mcp.example:443"], true, true, [
    "/w",
  ]]);
});

Deno.test("an environment is made or refused as the list of built parts says", () => {
  for (const type of ENVIRONMENT_TYPES) {
    const { missing_part: part } = ENVIRONMENT_KINDS[type];
    const make = () => worldOf({ environment: environmentOf(type) });
    if (part === null) assert.ok(make());
    else {
      const message = `Cannot use agent.environment.type = "${type}": ${part} is not in this build`;
      assert.throws(make, { code: "not_built", message });
    }
  }
});

/** A group of attempts, one for each text, in the world of a judge alone. */
async function judgedAlone(
  texts: string[],
  { hosts, ...options }: Pick<WorldParts, "hosts"> & RankingJudgeOptions,
) {
  const judge = rankingJudge(options), clock = new ManualClock();
  const world = composeWorld({ environments: null, hosts, graders: [judge], clock });
  let next = 0;
  const engine = new ScriptedEngine({ script: () => turnTokens(texts[next++]!) });
  const { environments: environment, graders } = world;
  const rollout = { environment, graders, group_size: texts.length, concurrent_rollouts: 1 };
  const groups = await Array.fromAsync(rolloutGroups(testRollout(engine.client, rollout)));
  await world.close();
  finishGroups(groups, { truncation: "drop", max_dropped_fraction: 0, advantage: "leave_one_out" });
  assert.deepEqual(engine.openSequences, []);
  return { judge, group: groups[0]! };
}

Deno.test("a judge alone grades attempts that have neither an environment nor tools", async () => {
  const { group } = await judgedAlone(["ccc", "a", "bb"], { hosts: [], inspects: false });
  assert.deepEqual([group.toolset, group.tools], [{ name: "none", version: "1" }, []]);
  assert.deepEqual([group.graded_by, group.status], ["judge", "kept"]);
  assert.deepEqual(group.members.map(({ stop_reason }) => stop_reason), Array(3).fill("no_tool_call"));
  // The share of shorter attempts, and each reward minus the mean of the other two.
  assert.deepEqual(group.members.map(({ total_reward }) => total_reward), [1, 0, 0.5]);
  assert.deepEqual(group.members.map(({ advantage }) => advantage), [0.75, -0.75, 0]);
});

Deno.test("a judge alone grades attempts that have only the tools of other hosts", async () => {
  const host = fakeToolHost({
    tools: TEST_TOOLS,
    call: ({ name }) => ({ result: name === "end" ? null : "heard", reward: null, done: name === "end" }),
  });
  const texts = ["a", "bb"].map((text) => `${callText("say", { text })}\n${callText("end")}`);
  const { judge, group } = await judgedAlone(texts, { hosts: [host] });
  assert.deepEqual(judge.graded, [{ scenario: "s", members: [0, 1], evidence: ["heard", "heard"] }]);
  assert.deepEqual(group.members.map(({ total_reward, advantage }) => [total_reward, advantage]), [
    [0, -1],
    [1, 1],
  ]);
  assert.deepEqual(host.count, { listed: 1, opened: 2, closed: 2, left: 1 });
});

Deno.test("without an environment a scenario that needs one is refused", async () => {
  assert.equal(worldOf({}).environments.call_timeout_ms, CALL_TIMEOUT_MS);
  const clock = new ManualClock(), graders = [rankingJudge()];
  const { environments } = composeWorld({ environments: null, hosts: [], graders, clock });
  const task = { id: "x", user: "u", metadata: { env: { verify: { command: ["true"] } } } };
  await assert.rejects(environments.catalog(parseScenario(task, { path: "t", line: 3 }), never), {
    code: "data_invalid",
    message: 'Cannot give tools to scenario "x" (line 3): its metadata.env needs [agent.environment]; ' +
      "add that section or leave metadata.env out",
  });
});
