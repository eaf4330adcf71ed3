import assert from "node:assert/strict";
import { observeEvery, resolveConfig, resolvePaths } from "./derive.ts";
import { stringify } from "smol-toml";
import { parseRunConfig } from "./load.ts";

const FACTS = { path: "/jobs/first.toml", context_length: 32_768, vocabulary: 151_936 };

const AGENT = `agent.scenarios = "s.jsonl"
agent.updates = 250
agent.environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }`;

function resolve(algorithm: string, lines = "", facts = FACTS) {
  const section = algorithm === "sft" ? 'sft.data = "t.jsonl"' : AGENT;
  const text = `run.algorithm = "${algorithm}"
model.path = "m.gguf"
${section}
${lines}`;
  return resolveConfig(parseRunConfig(text, { path: facts.path }).config, facts);
}

Deno.test("learning rates depend on the algorithm, clip ranges on the level", () => {
  assert.equal(resolve("sft").training.lr, 2e-4);
  assert.equal(resolve("agent_grpo").training.lr, 2e-5);
  assert.equal(resolve("agent_grpo", "training.lr = 1e-3").training.lr, 1e-3);
  const clips = (lines: string) => {
    const { agent } = resolve("agent_grpo", lines);
    return [agent!.clip_low, agent!.clip_high];
  };
  assert.deepEqual(clips(""), [0.2, 0.28]);
  assert.deepEqual(clips('agent.importance_sampling_level = "sequence"'), [3e-4, 4e-4]);
  assert.deepEqual(clips('agent.importance_sampling_level = "sequence"\nagent.clip_low = 0.1'), [0.1, 4e-4]);
});

Deno.test("the context is the smaller of 4096 and the model's, and bounds a trajectory", () => {
  const ctx = (context_length: number, lines = "") => {
    const { training, agent } = resolve("agent_grpo", lines, { ...FACTS, context_length });
    return [training.ctx, agent!.max_trajectory_tokens, training.micro_batch_tokens];
  };
  assert.deepEqual(ctx(32_768), [4096, 4096, 4096]);
  assert.deepEqual(ctx(1024), [1024, 1024, 2048]);
  assert.equal(resolve("sft", "", { ...FACTS, context_length: 1024 }).training.batch_tokens, 4096);
  assert.equal(resolve("agent_grpo").training.batch_tokens, undefined, "its steps are complete groups");
  assert.deepEqual(ctx(1024, "training.ctx = 512\nagent.max_trajectory_tokens = 300"), [
    512,
    300,
    2048,
  ]);
});

Deno.test("epochs are 1, and have no limit where updates or minutes end the run", () => {
  const ends = (lines: string, algorithm = "sft") => {
    const { epochs, updates, max_minutes } = resolve(algorithm, lines).training;
    return [epochs, updates, max_minutes];
  };
  assert.deepEqual(ends(""), [1, undefined, undefined]);
  assert.deepEqual(ends("training.updates = 30"), [undefined, 30, undefined]);
  assert.deepEqual(ends("training.max_minutes = 5"), [undefined, undefined, 5]);
  assert.deepEqual(ends("training = { updates = 30, epochs = 2 }"), [2, 30, undefined]);
  assert.deepEqual(ends("", "agent_grpo"), [1, undefined, undefined]);
});

Deno.test("the loss computes as many rows as give 2^26 logits", () => {
  const rows = (vocabulary: number) => resolve("sft", "", { ...FACTS, vocabulary }).training.loss_chunk_rows;
  assert.equal(rows(151_936), 441);
  assert.equal(rows(1024), 1024);
  assert.equal(rows(4_000_000), 64);
});

Deno.test("evaluation is greedy with one sample, else at temperature 1", () => {
  const temperature = (lines: string) => {
    const { evaluation } = resolve("agent_grpo", `evaluation.data = "h.jsonl"\n${lines}`);
    return [evaluation!.temperature, evaluation!.seed];
  };
  assert.deepEqual(temperature(""), [0, 42]);
  assert.deepEqual(temperature("evaluation.samples_per_scenario = 2\nrun.seed = 7"), [1, 7]);
  assert.deepEqual(temperature("evaluation.samples_per_scenario = 2\nevaluation.temperature = 0.5"), [
    0.5,
    42,
  ]);
});

Deno.test("output paths are in the run's directory unless their own key says otherwise", () => {
  const text =
    'run.algorithm = "sft"\nmodel.path = "m.gguf"\nsft.data = "t.jsonl"\n[checkpoint]\n[observe]\n';
  const paths = (lines: string) => {
    const { config } = parseRunConfig(lines + text, { path: "/jobs/first.toml" });
    const { run, output, checkpoint, observe } = resolvePaths(config, "/jobs/first.toml");
    return [run.name, run.directory, output.path, checkpoint?.directory, observe?.directory];
  };
  assert.deepEqual(paths(""), [
    "first",
    "/jobs/runs/first",
    "/jobs/runs/first/adapter.gguf",
    "/jobs/runs/first/checkpoints",
    "/jobs/runs/first/trajectories",
  ]);
  assert.deepEqual(paths('run.name = "x"\nrun.directory = "../out"\noutput.path = "a.gguf"\n'), [
    "x",
    "/out",
    "/jobs/a.gguf",
    "/out/checkpoints",
    "/out/trajectories",
  ]);
  const none = parseRunConfig(text.replace("[checkpoint]\n[observe]\n", ""), { path: "/c.toml" }).config;
  assert.deepEqual([resolvePaths(none, "/c.toml").checkpoint, resolvePaths(none, "/c.toml").observe], [
    undefined,
    undefined,
  ]);
});

Deno.test("texts of about a hundred updates are kept", () => {
  assert.deepEqual([1, 100, 101, 250].map((updates) => observeEvery(updates)), [1, 1, 2, 3]);
  assert.equal(observeEvery(250, 50), 5);
  assert.equal(resolve("agent_grpo", "observe = {}").observe?.every, 3);
});

Deno.test("all rollouts of an update run at once, at most 64", () => {
  assert.equal(resolve("agent_grpo").agent!.concurrent_rollouts, 32);
  assert.equal(resolve("agent_grpo", "agent.group_size = 16").agent!.concurrent_rollouts, 64);
  assert.equal(resolve("agent_grpo", "agent.group_size = 17").agent!.concurrent_rollouts, 64);
  assert.equal(resolve("agent_grpo", "agent.concurrent_rollouts = 5").agent!.concurrent_rollouts, 5);
});

Deno.test("a resolved configuration is one that can be loaded and stays as it is", () => {
  const sections = 'checkpoint = {}\nobserve = {}\nevaluation.data = "h.jsonl"\n';
  for (const algorithm of ["sft", "agent_grpo"]) {
    const resolved = resolve(algorithm, sections);
    const text = stringify(JSON.parse(JSON.stringify(resolved)));
    const { config } = parseRunConfig(text, { path: "/elsewhere/x.toml" });
    assert.deepEqual(resolveConfig(config, { ...FACTS, path: "/elsewhere/x.toml" }), resolved);
  }
});

Deno.test("nothing of a run depends on the sections of other algorithms", () => {
  const alone = resolve("sft"), beside = resolve("sft", AGENT);
  assert.deepEqual(beside, alone);
  assert.equal(resolve("agent_grpo", 'sft.data = "t.jsonl"').sft, undefined);
});
