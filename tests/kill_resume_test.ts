/** Kill -9, then `--resume`: the real program, on the real engine, ends with the bytes of an uninterrupted run. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { fixturePath } from "./fixture.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

async function writeConfig(root: string): Promise<string> {
  const path = join(root, "run.toml");
  await Deno.writeTextFile(
    path,
    `
[run]
algorithm = "agent_grpo"
directory = "run"
[model]
path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))}
[training]
ctx = 640
lr = 3e-3
[agent]
scenarios = ${JSON.stringify(await fixturePath("models/tiny-agent/scenarios.train.jsonl"))}
updates = 3
scenarios_per_update = 2
group_size = 3
max_new_tokens_per_turn = 48
max_rollout_secs = 0
truncation = "min_reward"
max_update_kl = 1e-4
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
limits = { exec_timeout_secs = 3600 }
[checkpoint]
every_updates = 1
[observe]
`,
  );
  return path;
}

/** Runs `svc train`, and kills it at the first event for which `isTheEnd` is true. */
async function train(
  config: string,
  args: string[],
  isTheEnd: (event: RunEvent) => boolean = () => false,
): Promise<{ events: RunEvent[]; success: boolean }> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, "train", config, "--json", ...args],
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const events: RunEvent[] = [];
  let rest = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    for (const line of lines.filter((line) => line.startsWith("{"))) {
      events.push(JSON.parse(line));
      if (isTheEnd(events.at(-1)!)) child.kill("SIGKILL");
    }
  }
  return { events, success: (await child.status).success };
}

/** Trajectories without the fields that depend on a clock. */
async function trajectories(root: string): Promise<unknown[]> {
  const text = await Deno.readTextFile(join(root, "run/trajectories/update_000003.jsonl"));
  return text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
}

gpuTest("kill -9 and --resume give the bytes of the uninterrupted run", async () => {
  const root = await Deno.makeTempDir();
  try {
    const folder = async (name: string) => {
      await Deno.mkdir(join(root, name));
      return await writeConfig(join(root, name));
    };
    const whole = await train(await folder("whole"), []);
    assert.ok(whole.success);
    // The bound shortens every step, and a checkpoint must include that.
    const scales = whole.events.flatMap((event) =>
      event.kind === "metrics" ? event.values["optimizer/step_scale"] ?? [] : []
    );
    assert.ok(scales.length === 3 && scales.every((scale) => 0 < scale && scale < 1), scales.join());
    const config = await folder("killed");
    // During the first update's episodes; then in the second update, before its checkpoint is complete.
    const first = await train(config, [], (event) => event.kind === "state" && event.state === "running");
    assert.ok(!first.success);
    const second = await train(
      config,
      ["--resume"],
      (event) => event.kind === "update" && event.update === 2,
    );
    assert.ok(!second.success);
    const last = await train(config, ["--resume"]);
    assert.ok(last.success);
    const files = ["run/adapter.gguf", "run/checkpoints/update_000003/optimizer.safetensors"];
    for (const file of files) {
      const [a, b] = [
        await Deno.readFile(join(root, "whole", file)),
        await Deno.readFile(join(root, "killed", file)),
      ];
      assert.ok(a.length > 0 && a.every((byte, i) => byte === b[i]) && a.length === b.length, file);
    }
    assert.deepEqual(await trajectories(join(root, "killed")), await trajectories(join(root, "whole")));
    const log = (await Deno.readTextFile(join(root, "killed/run/events.jsonl"))).trimEnd().split("\n");
    assert.deepEqual(log.map((line) => JSON.parse(line).seq), log.map((_, i) => i + 1));
    const started = last.events.find((event) => event.kind === "state");
    assert.match(started!.checkpoint!, /^update_00000[12]$/);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
