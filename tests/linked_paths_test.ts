/** Links in all paths of a run do not change what the real program does. */

import assert from "node:assert/strict";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "./fixture.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** Inputs by their configuration keys. */
const INPUTS: Record<string, string> = {
  "model.gguf": "models/tiny-agent-q8_0.gguf",
  "start.gguf": "models/tiny-agent/golden-lora/golden-lora.gguf",
  "scenarios.jsonl": "models/tiny-agent/scenarios.train.jsonl",
  "heldout.jsonl": "models/tiny-agent/scenarios.heldout.jsonl",
};

const CONFIG = `
[run]
algorithm = "agent_grpo"
name = "test"
[model]
path = "model.gguf"
[lora]
init_adapter = "start.gguf"
[training]
ctx = 640
lr = 3e-3
[agent]
scenarios = "scenarios.jsonl"
updates = 1
scenarios_per_update = 1
group_size = 2
max_turns = 2
max_new_tokens_per_turn = 40
truncation = "min_reward"
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[evaluation]
data = "heldout.jsonl"
[checkpoint]
every_updates = 1
[observe]
[output]
peft_dir = "peft"
[metrics]
csv = "metrics.csv"
`;

async function svc(args: string[], tmp: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", CLI, ...args],
    env: { TMPDIR: tmp },
  }).output();
  assert.equal(code, 0, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

/** Copies a fixture; of scenarios only one that needs a call of write_file, or one whose workspace has a file. */
async function copyFixture(name: string, to: string): Promise<void> {
  const from = await fixturePath(name);
  if (!name.includes("scenarios")) return await Deno.copyFile(from, to);
  const family = name.includes("heldout") ? "-copy-" : "-write-";
  const lines = (await Deno.readTextFile(from)).split("\n");
  await Deno.writeTextFile(to, lines.find((line) => line.includes(family)) + "\n");
}

/** A project without links: copies of the inputs. */
async function plainProject(root: string): Promise<void> {
  for (const [name, fixture] of Object.entries(INPUTS)) await copyFixture(fixture, join(root, name));
}

/** The same with links everywhere: inputs as in the cache of Hugging Face, and folders. Returns its path. */
async function linkedProject(root: string): Promise<string> {
  const project = join(root, "disk", "project"), snapshot = join(root, "disk", "hub", "snapshots", "main");
  for (const folder of ["disk/project", "disk/hub/blobs", "disk/hub/snapshots/main", "disk/runs/test"]) {
    await Deno.mkdir(join(root, folder), { recursive: true });
  }
  for (const [i, [name, fixture]] of Object.entries(INPUTS).entries()) {
    await copyFixture(fixture, join(root, "disk/hub/blobs", `${i}`));
    await Deno.symlink(`../../blobs/${i}`, join(snapshot, name));
    await Deno.symlink(`../hub/snapshots/main/${name}`, join(project, name));
  }
  await Deno.symlink("../runs", join(project, "runs"));
  for (const name of ["checkpoints", "trajectories", "workspaces"]) {
    await Deno.mkdir(join(root, "disk", `big_${name}`));
    await Deno.symlink(`../../big_${name}`, join(root, "disk/runs/test", name));
  }
  await Deno.symlink("disk", join(root, "linked"));
  return join(root, "linked", "project");
}

/** Trajectories without the fields that depend on a clock. */
async function trajectories(run: string): Promise<string> {
  const text = await Deno.readTextFile(join(run, "trajectories/update_000001.jsonl"));
  const groups = text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
  return JSON.stringify(groups);
}

gpuTest("with links in all paths a run gives the same bytes and the same evaluation", async () => {
  const root = await Deno.makeTempDir();
  try {
    const plain = join(root, "plain"), temporary = join(root, "temporary"), tmp = join(root, "tmp");
    for (const folder of [plain, temporary]) await Deno.mkdir(folder);
    await Deno.symlink("temporary", tmp);
    await plainProject(plain);
    const linked = await linkedProject(root);
    const reports: string[] = [], results: unknown[] = [];
    for (const [project, tmpdir] of [[plain, temporary], [linked, tmp]] as const) {
      const config = join(project, "run.toml");
      await Deno.writeTextFile(config, CONFIG);
      await svc(["train", config], tmpdir);
      const adapter = join(project, "trained.gguf");
      await Deno.symlink(join(project, "runs/test/adapter.gguf"), adapter);
      const out = join(project, "report.json");
      reports.push(await svc(["eval", config, "--adapter", adapter, "--json", "--out", out], tmpdir));
      assert.equal(await Deno.readTextFile(out), reports.at(-1));
      const { model, adapter: named, ...result } = JSON.parse(reports.at(-1)!);
      assert.deepEqual([model, named], [join(project, "model.gguf"), adapter]);
      results.push(result);
    }
    assert.deepEqual(results[1], results[0]);
    const [a, b] = [join(plain, "runs/test"), join(root, "disk/runs/test")];
    for (const file of ["adapter.gguf", "checkpoints/update_000001/optimizer.safetensors"]) {
      assert.deepEqual(await Deno.readFile(join(b, file)), await Deno.readFile(join(a, file)), file);
    }
    const episodes = await trajectories(b);
    assert.equal(episodes, await trajectories(a));
    assert.ok(!episodes.includes("error: cannot write"));
    assert.match(
      episodes,
      /"name":"write_file","arguments":{"path":"map\.dat","content":"[^"]*"},.{0,60}"result":"ok"/,
    );
    const identity = async (run: string) =>
      JSON.parse(await Deno.readTextFile(join(run, "run.json"))).config_hash;
    assert.equal(await identity(b), await identity(a));
    await Deno.stat(join(root, "disk/project/peft/adapter_model.safetensors"));
    assert.equal(dirname(await Deno.realPath(join(linked, "metrics.csv"))), await Deno.realPath(linked));
    assert.deepEqual(await Array.fromAsync(Deno.readDir(temporary)), [], "nothing is left of the evaluation");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
