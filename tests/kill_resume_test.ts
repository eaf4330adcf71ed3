/** Kill -9, then `--resume`: the real program, on the real engine, ends with the bytes of an uninterrupted run. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { withFolder } from "./folder.ts";
import { JUDGED, type Keys, trainSmall, writeSmallAgent } from "./small_agent.ts";

/** Makes a folder with the configuration of a run of these keys. */
async function configIn(root: string, name: string, keys: Keys): Promise<string> {
  await Deno.mkdir(join(root, name));
  return await writeSmallAgent(join(root, name), {
    "run.directory": "run",
    "checkpoint.every_updates": 1,
    ...keys,
  });
}

/** Trajectories of an update without the fields that depend on a clock. */
async function trajectories(root: string, update: number): Promise<unknown[]> {
  const text = await Deno.readTextFile(join(root, `run/trajectories/update_00000${update}.jsonl`));
  return text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
}

/** Whether two runs of so many updates in the folders `whole` and `killed` left the same. */
async function assertSame(root: string, updates: number): Promise<void> {
  const [whole, killed] = [join(root, "whole"), join(root, "killed")];
  const files = ["run/adapter.gguf", `run/checkpoints/update_00000${updates}/optimizer.safetensors`];
  for (const file of files) {
    const [a, b] = [await Deno.readFile(join(whole, file)), await Deno.readFile(join(killed, file))];
    assert.ok(a.length > 0 && a.every((byte, i) => byte === b[i]) && a.length === b.length, file);
  }
  assert.deepEqual(await trajectories(killed, updates), await trajectories(whole, updates));
  const log = (await Deno.readTextFile(join(killed, "run/events.jsonl"))).trimEnd().split("\n");
  assert.deepEqual(log.map((line) => JSON.parse(line).seq), log.map((_, i) => i + 1));
}

const isUpdate = (number: number) => (event: RunEvent) => event.kind === "update" && event.update === number;

gpuTest("kill -9 and --resume give the bytes of the uninterrupted run", () =>
  withFolder(async (root) => {
    const keys = {
      "training.lr": 3e-3,
      "agent.updates": 3,
      "agent.max_turns": 3,
      "agent.max_update_kl": 1e-4,
    };
    const whole = await trainSmall(await configIn(root, "whole", keys));
    assert.equal(whole.code, 0, whole.printed);
    // The bound shortens every step, and a checkpoint must include that.
    const scales = whole.events.flatMap((event) =>
      event.kind === "metrics" ? event.values["optimizer/step_scale"] ?? [] : []
    );
    assert.ok(scales.length === 3 && scales.every((scale) => 0 < scale && scale < 1), scales.join());
    const config = await configIn(root, "killed", keys), args = ["--resume"];
    // During the first update's episodes; then in the second update, before its checkpoint is complete.
    const killAt = (event: RunEvent) => event.kind === "state" && event.state === "running";
    assert.notEqual((await trainSmall(config, { killAt })).code, 0);
    assert.notEqual((await trainSmall(config, { args, killAt: isUpdate(2) })).code, 0);
    const last = await trainSmall(config, { args });
    assert.equal(last.code, 0, last.printed);
    await assertSame(root, 3);
    const started = last.events.find((event) => event.kind === "state");
    assert.match(started!.checkpoint!, /^update_00000[12]$/);
  }));

gpuTest(
  "a run that its own base model judges ends with the same bytes after kill -9 and --resume",
  () =>
    withFolder(async (root) => {
      const keys = { ...JUDGED, "agent.judge.type": "local", "agent.scenarios_per_update": 1 };
      const whole = await trainSmall(await configIn(root, "whole", keys));
      assert.equal(whole.code, 0, whole.printed);
      const config = await configIn(root, "killed", keys);
      // As its first checkpoint is written.
      assert.notEqual((await trainSmall(config, { killAt: isUpdate(1) })).code, 0);
      const last = await trainSmall(config, { args: ["--resume"] });
      assert.equal(last.code, 0, last.printed);
      await assertSame(root, 2);
    }),
);
