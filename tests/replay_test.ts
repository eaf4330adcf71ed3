/** A recorded run and its replays: the real program, on the real engine. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

async function writeConfig(root: string): Promise<string> {
  const path = join(root, "run.toml");
  const scenarios = async (part: string) =>
    JSON.stringify(await fixturePath(`models/tiny-agent/scenarios.${part}.jsonl`));
  await Deno.writeTextFile(
    path,
    `
[run]
algorithm = "agent_grpo"
directory = "recorded"
record = true
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 640
lr = 3e-3
[agent]
scenarios = ${await scenarios("train")}
updates = 2
scenarios_per_update = 2
group_size = 3
max_new_tokens_per_turn = 48
truncation = "min_reward"
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[evaluation]
data = ${await scenarios("heldout")}
max_examples = 2
[checkpoint]
every_updates = 1
[observe]
`,
  );
  return path;
}

async function train(config: string, ...args: string[]) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, "train", config, "--json", ...args],
    stdout: "piped",
    stderr: "piped",
  }).output();
  const lines = new TextDecoder().decode(stdout).split("\n").filter((line) => line.startsWith("{"));
  const events = lines.map((line) => JSON.parse(line) as RunEvent);
  return { code, events, error: new TextDecoder().decode(stderr) };
}

/** The lines of an update's trajectories, without the fields that depend on a clock. */
async function trajectories(run: string, update: number): Promise<unknown[]> {
  const text = await Deno.readTextFile(join(run, `trajectories/update_00000${update}.jsonl`));
  return text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
}

/** Attempts and passes of every scenario by update, as the last checkpoint has them. */
async function history(run: string): Promise<unknown> {
  const { state } = JSON.parse(await Deno.readTextFile(join(run, "checkpoints/update_000002/state.json")));
  assert.equal(Object.values<unknown[]>(state.history).flat().length, 4, "two scenarios in each update");
  return state.history;
}

const evaluations = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "evaluation" ? [event.scenarios] : []);

const losses = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "update" ? [event.loss] : []);

/** What the model sampled: the tokens of all attempts. */
const tokensOf = (lines: readonly unknown[]) =>
  lines.flatMap((line) => (line as { part?: { tokens: number[] } }).part?.tokens ?? []);

gpuTest("a recorded run is replayed to the same bytes, and one update of it with another rate", async () => {
  await withFolder(async (root) => {
    const config = await writeConfig(root);
    const recorded = await train(config);
    assert.equal(recorded.code, 0, recorded.error);
    const recording = join(root, "recorded/recordings");
    const names = (await Array.fromAsync(Deno.readDir(recording))).map(({ name }) => name).sort();
    assert.deepEqual(names, [
      "evaluation_000000.jsonl.gz",
      "evaluation_000002.jsonl.gz",
      "update_000001.jsonl.gz",
      "update_000002.jsonl.gz",
    ]);

    const own = await train(config, "--replay", join(root, "recorded"), "--force");
    assert.equal(own.code, 2, own.error);
    assert.match(own.error, /--replay/);

    const replayed = await train(
      config,
      "--replay",
      join(root, "recorded"),
      `run.directory=${join(root, "replayed")}`,
    );
    assert.equal(replayed.code, 0, replayed.error);
    for (const file of ["adapter.gguf", "checkpoints/update_000002/optimizer.safetensors"]) {
      const [a, b] = await Promise.all(
        ["recorded", "replayed"].map((run) => Deno.readFile(join(root, run, file))),
      );
      assert.deepEqual(a, b, file);
    }
    for (const update of [1, 2]) {
      assert.deepEqual(
        await trajectories(join(root, "replayed"), update),
        await trajectories(join(root, "recorded"), update),
      );
    }
    assert.deepEqual(await history(join(root, "replayed")), await history(join(root, "recorded")));
    assert.deepEqual(evaluations(replayed.events), evaluations(recorded.events));
    assert.equal(evaluations(replayed.events).length, 2);
    const made = (await Array.fromAsync(Deno.readDir(join(root, "replayed")))).map(({ name }) => name);
    assert.ok(!made.includes("recordings"), "a replay is not recorded");

    const forked = await train(
      config,
      ...["--fork", join(root, "recorded/checkpoints/update_000001"), "--replay", join(root, "recorded")],
      ...[`run.directory=${join(root, "forked")}`, "training.lr=1e-4"],
    );
    assert.equal(forked.code, 0, forked.error);
    assert.deepEqual(
      tokensOf(await trajectories(join(root, "forked"), 2)),
      tokensOf(await trajectories(join(root, "recorded"), 2)),
    );
    assert.deepEqual(losses(forked.events), losses(recorded.events).slice(1));
    const adapters = await Promise.all(
      ["recorded", "forked"].map((run) => Deno.readFile(join(root, run, "adapter.gguf"))),
    );
    assert.notDeepEqual(adapters[0], adapters[1]);
  });
});
