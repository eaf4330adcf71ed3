import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { describeKeys } from "../describe.ts";
import { checkRunConfig, loadRunConfig, MAX_CONFIG_BYTES, parseRunConfig } from "./load.ts";
import { readOverrides } from "./overrides.ts";
import type { ConfigProblem } from "../text/problems.ts";

const SFT = `[run]
algorithm = "sft"
[model]
path = "m.gguf"
[sft]
data = "traces.jsonl"
`;

const GRPO = `[run]
algorithm = "agent_grpo"
[model]
path = "m.gguf"
[agent]
scenarios = "s.jsonl"
updates = 3
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
`;

const problemsOf = (text: string) => checkRunConfig(text, { path: "/tmp/c.toml" }).problems;
const brief = (problems: ConfigProblem[]) => problems.map(({ line, key, code }) => `${line} ${key} ${code}`);

/** Inserts a line into an existing section of the text, or appends the section. */
function withLine(text: string, section: string, line: string): string {
  const header = `[${section}]\n`;
  return text.includes(header) ? text.replace(header, `${header}${line}\n`) : `${text}${header}${line}\n`;
}

Deno.test("the smallest configuration gets the published defaults", () => {
  const { config } = parseRunConfig(GRPO, { path: "/tmp/c.toml" });
  assert.equal(config.run.seed, 42);
  assert.deepEqual([config.lora.rank, config.lora.alpha, config.lora.targets], [8, 16, "all"]);
  const { agent, training } = config;
  assert.ok(agent);
  assert.deepEqual(
    [agent.max_turns, agent.max_new_tokens_per_turn, agent.max_rollout_secs, agent.end_on_no_tool_call],
    [6, 512, 300, true],
  );
  assert.deepEqual(
    [agent.truncation, agent.max_dropped_fraction, agent.importance_sampling_level, agent.advantage],
    ["drop", 0.5, "token", "leave_one_out"],
  );
  assert.deepEqual([agent.scenarios_per_update, agent.group_size, agent.temperature], [4, 8, 1]);
  assert.deepEqual([training.beta1, training.beta2, training.eps, training.max_grad_norm], [
    0.9,
    0.999,
    1e-8,
    1,
  ]);
  assert.equal(config.checkpoint, undefined);
});

Deno.test("paths resolve against the folder of the file", () => {
  const { config, text } = parseRunConfig(SFT, { path: "/data/jobs/c.toml" });
  assert.equal(config.model.path, "/data/jobs/m.gguf");
  assert.equal(config.sft?.data, "/data/jobs/traces.jsonl");
  assert.equal(
    parseRunConfig(SFT.replace('"m.gguf"', '"/m.gguf"'), { path: "/d/c.toml" }).config.model.path,
    "/m.gguf",
  );
  assert.equal(text, SFT);
});

Deno.test("every problem is listed at once, by line", () => {
  const text = `# a comment with [model]
[run]
algorithm = "agent_grpo" # = 3
seeed = 1

[lora]
rank = "eight"
targets = [
  "q_proj",
  "kproj",
]
[trainig]
lr = 1
[agent]
scenarios = "a.jsonl"
group_size = 1
`;
  assert.deepEqual(brief(problemsOf(text)), [
    "1 model.path missing_field",
    "4 run.seeed unknown_field",
    "7 lora.rank invalid_value",
    "8 lora.targets.1 invalid_value",
    "12 trainig unknown_field",
    "14 agent invalid_value",
    "14 agent.updates missing_field",
    "16 agent.group_size out_of_range",
  ]);
  assert.throws(
    () => parseRunConfig(text, { path: "c.toml" }),
    (error) =>
      error instanceof ServiceError && error.code === "config_invalid" &&
      (error.details.problems as unknown[]).length === 8 && error.message.includes("c.toml:4: run.seeed:"),
  );
});

Deno.test("the error for an unknown key suggests the key that was meant", () => {
  const hint = (section: string, line: string) => {
    const found = problemsOf(withLine(GRPO, section, line)).filter(({ code }) => code === "unknown_field");
    assert.equal(found.length, 1, line);
    return found[0]!.hint;
  };
  assert.equal(hint("agent", "group_sise = 8"), 'did you mean "agent.group_size"?');
  assert.equal(hint("agent", "grup_sise = 8"), 'did you mean "agent.group_size"?');
  assert.equal(hint("agent", "grp_sise = 8"), undefined);
  assert.equal(hint("agent", "lr = 1e-5"), 'did you mean "training.lr"?');
  assert.equal(hint("run", "rank = 8"), 'did you mean "lora.rank"?');
  assert.equal(hint("checkpoint", "patience = 2"), 'did you mean "evaluation.patience"?');
  assert.equal(hint("agent.environment.limits", "cpu = 1"), 'did you mean "agent.environment.limits.cpus"?');
  assert.equal(hint("observe", 'dir = "x"'), undefined);
  assert.equal(hint("agent", "lrr = 1e-5"), 'did you mean "training.lr"?');
  assert.equal(hint("agents", "updates = 1"), 'did you mean "agent"?');
  assert.equal(hint("model", `${"x".repeat(10_000)} = 1`), undefined);
});

Deno.test("names of Object.prototype are unknown keys like any other", () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    const found = problemsOf(`${SFT}[lora]\n${name} = 1\n`);
    assert.deepEqual(brief(found), [`8 lora.${name} unknown_field`]);
  }
  assert.equal(({} as Record<string, unknown>).rank, undefined);
});

Deno.test("integers are not floats, and numbers are finite", () => {
  const codes = (line: string) => problemsOf(withLine(SFT, "lora", line)).map(({ code }) => code);
  assert.deepEqual(codes("rank = 8.0"), ["invalid_value"]);
  assert.deepEqual(codes("rank = 8.5"), ["invalid_value"]);
  assert.deepEqual(codes("rank = 0.0"), ["out_of_range"]);
  assert.deepEqual(codes("rank = 99999999999999999999"), ["out_of_range"]);
  assert.deepEqual(codes("alpha = 16"), []);
  assert.deepEqual(codes("alpha = inf"), ["invalid_value"]);
  assert.deepEqual(codes("alpha = nan"), ["invalid_value"]);
  assert.deepEqual(codes("alpha = 1979-05-27"), ["invalid_value"]);
});

Deno.test("a message says what is accepted and what was found", () => {
  const message = (section: string, line: string) => problemsOf(withLine(GRPO, section, line))[0]!.message;
  assert.equal(message("lora", "rank = 0"), "must be at least 1, not 0");
  assert.equal(message("lora", "rank = 1025"), "must be at most 1024, not 1025");
  assert.equal(message("lora", "alpha = -1.5"), "must be above 0, not -1.5");
  assert.equal(message("lora", "dropout = 1"), "must be below 1, not 1");
  assert.equal(message("lora", 'rank = "8"'), 'must be an integer, not "8"');
  assert.equal(message("agent", 'truncation = "cut"'), 'must be "drop" or "min_reward", not "cut"');
  assert.equal(message("run", 'name = "a b"').split(":")[0], "must be a name");
  assert.equal(message("lora", "targets = 3").split(",")[0], 'must be "all"');
  assert.equal(message("lora", "targets = []"), "must have at least one entry");
  assert.equal(message("model", 'chat_template = ""'), "must not be empty");
  assert.equal(message("lora", `rank = "${"8".repeat(99)}"`), `must be an integer, not "${"8".repeat(39)}…`);
});

Deno.test("a text that is not TOML has one problem, with line and column", () => {
  assert.deepEqual(
    problemsOf("[run]\nseed = \n").map(({ line, column, code }) => [line, column, code]),
    [[2, 8, "syntax"]],
  );
  assert.deepEqual(problemsOf('a = 1\na = "2"\n').map(({ line, code }) => [line, code]), [[2, "syntax"]]);
});

Deno.test("keys of other algorithms are refused with another value than the one that holds", () => {
  const evaluation = (samples: number, temperature: number) =>
    `data = "h.jsonl"\nsamples_per_scenario = ${samples}\ntemperature = ${temperature}\nseed = 3`;
  const problems = problemsOf(withLine(SFT, "evaluation", evaluation(2, 0.5)));
  assert.deepEqual(brief(problems), [
    "9 evaluation.samples_per_scenario invalid_value",
    "10 evaluation.temperature invalid_value",
  ]);
  assert.deepEqual([problems[0]!.message, problems[0]!.hint], [
    "has no meaning for sft",
    "leave it out: held-out rows are scored, without attempts",
  ]);
  assert.deepEqual(problemsOf(withLine(GRPO, "evaluation", evaluation(2, 0.5))), []);
  assert.deepEqual(
    problemsOf(withLine(SFT, "evaluation", evaluation(1, 0))),
    [],
    "as a resolved configuration",
  );
  const pairs = SFT.replaceAll("sft", "preference");
  const keys = (text: string) => problemsOf(text).map(({ key }) => key);
  assert.deepEqual(keys(withLine(pairs, "evaluation", evaluation(1, 1))), ["evaluation.temperature"]);
  assert.deepEqual(keys(withLine(pairs, "evaluation", evaluation(1, -1))), ["evaluation.temperature"]);
  const { overrides } = readOverrides(["evaluation.temperature=1"], "c.toml");
  const given = { path: "c.toml", overrides };
  const [override] = checkRunConfig(withLine(SFT, "evaluation", 'data = "h.jsonl"'), given).problems;
  assert.deepEqual([override!.key, override!.override], [
    "evaluation.temperature",
    "evaluation.temperature=1",
  ]);
});

Deno.test("rules across keys", () => {
  const keys = (section: string, line: string, text = GRPO) => {
    const found = problemsOf(withLine(text, section, line));
    return found.map(({ key }) => key);
  };
  assert.deepEqual(problemsOf(GRPO), []);
  assert.deepEqual(problemsOf(SFT), []);
  assert.deepEqual(keys("lora", "dropout = 0.1"), ["lora.dropout"]);
  assert.deepEqual(problemsOf(withLine(GRPO, "lora", "dropout = 0.1")).map(({ code }) => code), [
    "invalid_value",
  ]);
  assert.deepEqual(keys("agent", "temperature = 0.7"), ["agent.temperature"]);
  assert.deepEqual(keys("agent", "temperature = 1.0"), []);
  assert.deepEqual(keys("agent", "optimizer_steps_per_update = 5"), ["agent.optimizer_steps_per_update"]);
  assert.deepEqual(keys("agent", "optimizer_steps_per_update = 4"), []);
  assert.deepEqual(keys("agent", 'kl_reference = "init_adapter"'), ["agent.kl_reference"]);
  assert.deepEqual(keys("training", "epochs = 2"), ["training.epochs"]);
  assert.deepEqual(keys("training", "epochs = 2", SFT), []);
  assert.deepEqual(keys("training", "batch_tokens = 2048"), ["training.batch_tokens"]);
  assert.deepEqual(keys("training", "batch_tokens = 2048", SFT), []);
  assert.deepEqual(keys("sft", 'data = "x.jsonl"'), [], "one file may serve sft and then agent_grpo");
  assert.deepEqual(keys("agent", 'scenarios = "s.jsonl"\nupdates = 1', SFT), []);
  assert.deepEqual(keys("training", "ctx = 512\nmicro_batch_tokens = 511"), [
    "training.micro_batch_tokens",
  ]);
  assert.deepEqual(keys("training", "ctx = 512\nmicro_batch_tokens = 512"), []);
  const pairs = (tokens: number) =>
    checkRunConfig(
      `run.algorithm = "preference"\nmodel.path = "m.gguf"\npreference.data = "p.jsonl"\n` +
        `training = { ctx = 512, micro_batch_tokens = ${tokens} }\n`,
      { path: "c.toml" },
    ).problems.map(({ message }) => message);
  assert.match(pairs(1023)[0]!, /must be at least what both sequences of a pair take, .* \(1024\)/);
  assert.deepEqual(pairs(1024), []);
  const longer = withLine(GRPO, "agent", "max_trajectory_tokens = 513");
  assert.deepEqual(keys("training", "ctx = 512", longer), ["agent.max_trajectory_tokens"]);
  assert.deepEqual(keys("training", "ctx = 513", longer), []);
  assert.deepEqual(keys("evaluation", 'data = "h.jsonl"\npatience = 3'), ["evaluation.patience"]);
  assert.deepEqual(keys("evaluation", 'data = "h.jsonl"\npatience = 3\nevery_updates = 1'), []);
  assert.deepEqual(keys("output", 'adapter = "best"'), ["output.adapter"]);
  assert.deepEqual(keys("output", 'adapter = "best"', withLine(GRPO, "evaluation", 'data = "h.jsonl"')), []);
});

Deno.test("an environment on this machine must be allowed, and must give scenarios a tool", () => {
  assert.deepEqual(brief(problemsOf(GRPO.replace("allow_unsandboxed = true\n", ""))), [
    "9 agent.environment.type invalid_value",
  ]);
  assert.deepEqual(brief(problemsOf(GRPO.replace('scenario_toolsets = ["files"]', ""))), [
    "8 agent.environment.tools.default missing_field",
  ]);
  assert.deepEqual(problemsOf(GRPO.replace('scenario_toolsets = ["files"]', 'tools.default = "files"')), []);
  const [unknown] = problemsOf(GRPO.replace('["files"]', '["file"]'));
  assert.equal(unknown?.hint, 'did you mean "files"?');
  const two = problemsOf(GRPO.replace("[agent.environment]", "[[agent.environment]]"));
  assert.equal(two[0]?.hint, "at most one may be declared: write [agent.environment]");
});

Deno.test("keys that mean nothing beside the environment's type are refused in their lines, with what to do", () => {
  const with_hints = (text: string) =>
    problemsOf(text).map(({ line, key, message, hint }) => `${line} ${key} ${message}; ${hint}`);
  assert.deepEqual(with_hints(withLine(GRPO, "agent.environment", 'base_url = "http://h"')), [
    '9 agent.environment.base_url has no meaning with type "local"; remove it, or set type = "http"',
  ]);
  const http = 'base_url = "http://me:hidden@h"\nprotect = ["a"]\nallow_unsandboxed = true';
  const environment = `[agent.environment]\ntype = "http"\n${http}\n`;
  const own_tools = "remove it: the server has its own tools and grades by itself";
  const found = with_hints(`${GRPO.slice(0, GRPO.indexOf("[agent.environment]"))}${environment}`);
  assert.deepEqual(found, [
    "10 agent.environment.base_url must have no user name or password; name the environment variable of a key " +
    "in api_key_env",
    `11 agent.environment.protect has no meaning with type "http"; ${own_tools}`,
    '12 agent.environment.allow_unsandboxed has no meaning with type "http"; remove it, or set type = "local"',
  ]);
  for (const section of ["scenario_generation", "collect_api"]) {
    const hosted = `[agent.${section}]\nmodel = "m"\nbase_url = "https://me:hidden@h/v1"\n`;
    assert.deepEqual(with_hints(`${GRPO}${hosted}`).map((text) => text.replace(/^\d+ /, "")), [
      `agent.${section}.base_url must have no user name or password; name the environment variable of a key in ` +
      "api_key_env",
    ]);
  }
  const server = '[[agent.mcp_servers]]\nname = "a"\nurl = "https://me:hidden@h/mcp"\nstateless = true\n';
  const [credentials, ...others] = problemsOf(`${GRPO}${server}`);
  assert.deepEqual([credentials!.key, credentials!.hint, others], [
    "agent.mcp_servers.0.url",
    "give them by headers, in which ${NAME} is an environment variable",
    [],
  ]);
});

Deno.test("an algorithm needs its section, and agent_grpo a source of reward", () => {
  assert.deepEqual(brief(problemsOf(SFT.replace('[sft]\ndata = "traces.jsonl"\n', ""))), [
    "1 sft missing_field",
  ]);
  assert.deepEqual(brief(problemsOf(GRPO.slice(0, GRPO.indexOf("[agent]")))), ["1 agent missing_field"]);
  assert.deepEqual(brief(problemsOf(GRPO.slice(0, GRPO.indexOf("[agent.environment]")))), [
    "5 agent invalid_value",
  ]);
  assert.deepEqual(problemsOf("").map(({ key }) => key), ["model.path", "run.algorithm"]);
});

Deno.test("missing files are listed with the other problems", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/c.toml`;
    await Deno.writeTextFile(path, `${SFT}[lora]\nrank = 0\ninit_adapter = "."\n`);
    const error = await loadRunConfig(path).then(() => null, (error: ServiceError) => error);
    assert.deepEqual(brief(error!.details.problems as ConfigProblem[]), [
      "4 model.path path_not_found",
      "6 sft.data path_not_found",
      "8 lora.rank out_of_range",
      "9 lora.init_adapter path_not_found",
    ]);
    await Deno.writeTextFile(path, SFT);
    assert.equal((await loadRunConfig(path, { check_paths: false })).config.run.algorithm, "sft");
    await Deno.writeTextFile(`${folder}/m.gguf`, "");
    await Deno.writeTextFile(`${folder}/traces.jsonl`, "");
    assert.equal((await loadRunConfig(path)).config.model.path, `${folder}/m.gguf`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a file that cannot be read as text is refused by its name", async () => {
  const folder = await Deno.makeTempDir();
  const refusal = (path: string) =>
    loadRunConfig(path).then(() => "", (error: ServiceError) => error.message);
  try {
    assert.match(await refusal(`${folder}/none.toml`), /there is no such file/);
    assert.match(await refusal(folder), /not a regular file/);
    await Deno.writeFile(`${folder}/latin.toml`, new Uint8Array([0x23, 0xe9, 0x0a]));
    assert.match(await refusal(`${folder}/latin.toml`), /not UTF-8/);
    await Deno.writeTextFile(`${folder}/full.toml`, SFT.padEnd(MAX_CONFIG_BYTES, "#"));
    assert.doesNotMatch(await refusal(`${folder}/full.toml`), /bytes, more than/);
    await Deno.writeTextFile(`${folder}/large.toml`, SFT.padEnd(MAX_CONFIG_BYTES + 1, "#"));
    assert.match(await refusal(`${folder}/large.toml`), /bytes, more than/);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("every key of the specification and the contract is known", () => {
  const known = new Set(describeKeys().map(({ key }) => key));
  const expected = {
    run: "algorithm name seed directory record",
    model: "path device webgpu compute kv chat_template",
    output: "path adapter peft_dir",
    lora: "rank alpha targets dropout seed init_adapter",
    sft: "data packing train_on template_variables",
    preference: "data loss beta gamma lambda",
    training: "ctx lr epochs updates max_minutes batch_tokens micro_batch_tokens loss_chunk_rows " +
      "offload_optimizer lr_scheduler warmup_steps weight_decay beta1 beta2 eps max_grad_norm " +
      "gradient_checkpointing max_gpu_duty_cycle",
    agent: "scenarios updates scenarios_per_update group_size epochs_per_update optimizer_steps_per_update " +
      "old_logprobs sampler_correction sampler_correction_cap max_trajectory_tokens clip_low clip_high " +
      "kl_coefficient kl_reference max_update_kl advantage overlong_penalty dynamic_sampling.max_resample_factor " +
      "max_failed_turns reward judge_failure template_variables system_suffix temperature concurrent_rollouts " +
      "max_turns max_new_tokens_per_turn max_rollout_secs end_on_no_tool_call truncation " +
      "max_dropped_fraction importance_sampling_level mcp_config",
    "agent.environment":
      "type profile allow_network allow_unsandboxed base_url api_key_env tools.default limits.cpus " +
      "limits.memory_mb limits.exec_timeout_secs pool.max_live pool.reuse scenario_toolsets id image runtime " +
      "protect toolsets.<name>.version toolsets.<name>.tools",
    "agent.mcp_servers[]": "id name command url env cwd headers allowed_tools denied_tools required " +
      "stateless",
    "agent.judge":
      "type base_url model api_key_env id rubric max_chars timeout_secs max_retries permute cache_path",
    "agent.reward": "command timeout_secs cwd",
    "agent.scenario_generation": "model base_url api_key_env count",
    "agent.collect_api": "model base_url api_key_env",
    evaluation: "data every_updates max_examples samples_per_scenario temperature seed patience min_delta",
    checkpoint: "directory every_updates keep best",
    observe: "directory every max_text_chars",
    metrics: "tensorboard_dir csv",
  };
  const keys = Object.entries(expected).flatMap(([section, names]) =>
    names.split(" ").map((name) => `${section}.${name}`)
  );
  assert.deepEqual([...known].toSorted(), keys.toSorted());
});
