import assert from "node:assert/strict";
import { resolve } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { MAX_TOML_DEPTH } from "../text/toml_tree.ts";
import { type LoadedConfig, loadRunConfig } from "./load.ts";
import { resolveLoaded } from "./resolve.ts";

const TEXT = `
[run]
algorithm = "agent_grpo"
[model]
path = "model.gguf"
[lora]
rank = 4
[agent]
scenarios = "scenarios.jsonl"
updates = 2
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`;

async function load(overrides: string[], text = TEXT): Promise<LoadedConfig> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/run.toml`;
    await Deno.writeTextFile(path, text);
    return await loadRunConfig(path, { check_paths: false, overrides });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The lines of the error, except the first. */
async function problems(overrides: string[], text?: string): Promise<string[]> {
  try {
    await load(overrides, text);
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.code === "config_invalid", String(error));
    return error.message.split("\n").slice(1).map((line) => line.replace(/^\/.*\/run\.toml/, "run.toml"));
  }
  throw new Error(`Assertion failed: ${overrides} loads`);
}

Deno.test("an override replaces the file's value, or the default", async () => {
  const { config } = await load([
    "training.lr=1e-4",
    "lora.rank=16",
    "run.name=7",
    "agent.truncation=min_reward",
    'agent.system_suffix="a\\nb"',
    "agent.template_variables.enable_thinking=false",
    "agent.environment.scenario_toolsets=[]",
    "agent.environment.tools.default = files",
    "checkpoint.every_updates=1",
  ]);
  assert.equal(config.training.lr, 1e-4);
  assert.equal(config.lora.rank, 16);
  assert.equal(config.run.name, "7", "the key is a string");
  assert.equal(config.agent!.truncation, "min_reward");
  assert.equal(config.agent!.system_suffix, "a\nb");
  assert.deepEqual({ ...config.agent!.template_variables }, { enable_thinking: false });
  assert.deepEqual(config.agent!.environment!.scenario_toolsets, []);
  assert.equal(config.agent!.environment!.tools.default, "files");
  assert.equal(config.checkpoint!.every_updates, 1, "a section that the file lacks");
  assert.equal(config.agent!.updates, 2);
});

Deno.test("a list or a word, if the key accepts both", async () => {
  assert.equal((await load(["lora.targets=all"], TEXT + '[output]\npath = "a"')).config.lora.targets, "all");
  const { config } = await load(['lora.targets=["q_proj", "v_proj"]']);
  assert.deepEqual(config.lora.targets, ["q_proj", "v_proj"]);
});

Deno.test("a path resolves against the current folder, the file's against its own", async () => {
  const { config, path } = await load(["model.path=other/m.gguf"]);
  assert.equal(config.model.path, resolve("other/m.gguf"));
  assert.equal(config.agent!.scenarios, resolve(path, "../scenarios.jsonl"));
  const missing = loadRunConfig(path, { overrides: ["model.path=m.gguf"] });
  await assert.rejects(missing, { code: "path_not_found" }, "the folder is gone");
});

Deno.test("an error names the override in place of a line", async () => {
  assert.deepEqual(await problems(["training.lr=fast"]), [
    'training.lr=fast: must be a number, not "fast"',
  ]);
  assert.deepEqual(await problems(["lora.rank=0"]), ["lora.rank=0: must be at least 1, not 0"]);
  assert.deepEqual(await problems(["lora.rank=8.0"]), [
    "lora.rank=8.0: must be an integer: write 8, without a fraction",
  ]);
  assert.deepEqual(await problems(["lora.rnk=8"]), [
    'lora.rnk=8: is no known key; did you mean "lora.rank"?',
  ]);
  assert.deepEqual(await problems(["trainig.lr=8"]), [
    'trainig.lr=8: trainig: is no known section; did you mean "training"?',
  ]);
  assert.deepEqual(await problems(["lr=1e-4"]), ['lr=1e-4: is no known key; did you mean "training.lr"?']);
  assert.deepEqual(await problems(["evaluation.seed=3"]), [
    "evaluation.seed=3: evaluation.data: is missing (Held-out data: scenarios for agent_grpo, traces for sft, pairs for preference; scenarios must be verifiable)",
  ]);
  assert.deepEqual(await problems(["agent.environment.scenario_toolsets=[1]"]), [
    "agent.environment.scenario_toolsets=[1]: agent.environment.scenario_toolsets.0: must be a string, not 1",
  ]);
  // A password is shown nowhere, not even to the person who typed it: terminals are recorded.
  const judge = ["agent.judge.model=m", "agent.judge.base_url=https://me:hidden@h/v1"];
  assert.deepEqual(await problems(judge), [
    "agent.judge.base_url=https://…@h/v1: must have no user name or password; " +
    "name the environment variable of a key in api_key_env",
  ]);
  const twice = (await problems([judge[1]!, judge[1]!])).join();
  assert.ok(/…@h/.test(twice) && !twice.includes("hidden"), twice);
  assert.deepEqual(
    await problems(["agent.updates=5", "agent.group_size=x"], TEXT.replace("rank = 4", "rank = 0")),
    [
      'agent.group_size=x: must be an integer, not "x"',
      "run.toml:7: lora.rank: must be at least 1, not 0",
    ],
  );
});

Deno.test("an override can fix a problem in the file, but not problems in other keys", async () => {
  const text = TEXT.replace("updates = 2", 'updates = "x"');
  assert.equal((await load(["agent.updates=5"], text)).config.agent!.updates, 5);
  assert.equal((await load(["lora.rank=8"], TEXT.replace("rank = 4", "rank = 4.0"))).config.lora.rank, 8);
  assert.deepEqual(await problems(["run.seed=1"], text), [
    'run.toml:10: agent.updates: must be an integer, not "x"',
  ]);
  assert.deepEqual(
    await problems(["lora.rank=3"], TEXT.replace("[lora]\nrank = 4", "").replace(/^/, "lora = 5\n")),
    [
      "run.toml:1: lora: must be a table, not 5",
    ],
  );
});

Deno.test("anything but a single value is refused", async () => {
  const only = async (text: string) => (await problems([text]))[0]!;
  assert.match(await only("resume"), /^resume: is no override: write key=value, such as training.lr=1e-4$/);
  assert.match(await only("=5"), /is no override/);
  assert.match(await only("a..b=5"), /is no override/);
  assert.match(await only("lora=5"), /^lora=5: \[lora\] is a table; give its keys, one at a time$/);
  assert.match(
    await only("agent.mcp_servers.0.name=x"),
    /\[\[agent\.mcp_servers\]\] is a list of tables.*in the file/,
  );
  assert.match(await only("agent.mcp_servers=[]"), /list of tables/);
  assert.match(await only("agent.environment.scenario_toolsets.0=files"), /give all of/);
  assert.match(await only("agent.environment.scenario_toolsets=[files"), /is not TOML/);
  for (const key of ["training.lr", "run.seed", "lora.targets", "model.path", "agent.truncation"]) {
    const message = `${key} holds a value, so it has no key below it`;
    for (const below of ["x", "x.y"]) {
      assert.equal(await only(`${key}.${below}=1`), `${key}.${below}=1: ${message}`);
    }
  }
  const deep = (parts: number) => `agent.template_variables${".a".repeat(parts - 2)}=1`;
  assert.match(await only(deep(MAX_TOML_DEPTH + 1)), /=1: has a key of more than 64 parts$/);
  await load([deep(MAX_TOML_DEPTH)]);
  assert.match(await only('run.name="x'), /is not TOML/);
  assert.match((await problems(["training.lr=1\nlora.rank = 2"])).join("\n"), /is more than one value/);
  const twice = await problems(["lora.rank=1", "lora.rank=2"]);
  assert.deepEqual(twice, ["lora.rank=2: says another value than lora.rank=1; give one of them"]);
});

Deno.test("an override counts as set where derived values are checked", async () => {
  const facts = {
    path: "run.toml",
    context_length: 512,
    vocabulary: 64,
    init_adapter: { rank: 8, alpha: 16, targets: "all" as const },
  };
  const text = TEXT.replace("rank = 4", 'init_adapter = "a.gguf"');
  assert.equal(resolveLoaded(await load([], text), facts).lora.rank, 8);
  const other = await load(["lora.rank=4"], text);
  assert.throws(
    () => resolveLoaded(other, facts),
    /\nlora\.rank=4: must be that of lora\.init_adapter \(8\)/,
  );
  const short = await load(["agent.max_trajectory_tokens=600"]);
  assert.throws(
    () => resolveLoaded(short, { ...facts, path: "x" }),
    /\nagent\.max_trajectory_tokens=600: must be/,
  );
});
