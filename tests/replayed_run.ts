/** Runs of the real program, and what a run and its replay have in common. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunEvent } from "../runs/record/event.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

interface Trained {
  code: number;
  events: RunEvent[];
  /** What the program wrote to standard error. */
  error: string;
}

/** `svc train` with a configuration, further arguments and variables of the environment. */
export async function train(
  config: string,
  args: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Trained> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", CLI, "train", config, "--json", ...args],
    env,
    stdout: "piped",
    stderr: "piped",
  }).output();
  const lines = new TextDecoder().decode(stdout).split("\n").filter((line) => line.startsWith("{"));
  const events = lines.map((line) => JSON.parse(line) as RunEvent);
  return { code, events, error: new TextDecoder().decode(stderr) };
}

/** The lines of an update's trajectories, without the fields that depend on a clock. */
export async function trajectories(run: string, update: number): Promise<unknown[]> {
  const text = await Deno.readTextFile(join(run, `trajectories/update_00000${update}.jsonl`));
  return text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
}

/** Two runs have the same trajectories of these updates, and these files are equal byte for byte. */
export async function expectSame(
  [recorded, replayed]: readonly [string, string],
  { updates, files }: { updates: readonly number[]; files: readonly string[] },
): Promise<void> {
  for (const file of files) {
    const [a, b] = await Promise.all([recorded, replayed].map((run) => Deno.readFile(join(run, file))));
    assert.deepEqual(a, b, file);
  }
  for (const update of updates) {
    assert.deepEqual(await trajectories(replayed, update), await trajectories(recorded, update));
  }
}

/**
 * Records a run of one update with `record = true` and `directory = "recorded"`, and replays it when its world is gone.
 *
 * @param gone Ends what answered the recorded run.
 * @param env Variables of the recorded run; the replay has none.
 * @returns The events of the recorded run.
 */
export async function expectReplayed(
  config: string,
  { root, gone, env = {} }: { root: string; gone: () => Promise<void>; env?: Record<string, string> },
): Promise<RunEvent[]> {
  const recorded = join(root, "recorded"), again = join(root, "replayed");
  const first = await train(config, [], env);
  assert.equal(first.code, 0, first.error);
  const [metrics] = first.events.flatMap((event) => event.kind === "metrics" ? [event.values] : []);
  assert.ok(metrics!["optimizer/grad_norm"]! > 0, "the update changed the adapter");
  await gone();
  const replayed = await train(config, ["--replay", recorded, `run.directory=${again}`]);
  assert.equal(replayed.code, 0, replayed.error);
  await expectSame([recorded, again], { updates: [1], files: ["adapter.gguf"] });
  return first.events;
}
