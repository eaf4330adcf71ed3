/** `svc train` in containers: the real program, workers with their permissions, the real engines, and what is left. */

import { deepEqual, equal, match, ok } from "node:assert/strict";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import {
  LAB_IMAGE,
  labEngine,
  NO_CONTAINERS,
  REQUIRE_CONTAINERS,
} from "../agent/environment/container_testing.ts";
import { containersText } from "../agent/environment/container.ts";
import { askEngine } from "../agent/environment/container_engine.ts";
import { gpuTest } from "../kernels/gpu_testing.ts";
import type { RunEvent } from "../runs/record/event.ts";
import { withFolder } from "./folder.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface Started {
  child: Deno.ChildProcess;
  /** Reads the events until one has the kind, or to the end. */
  until(kind?: RunEvent["kind"]): Promise<RunEvent[]>;
  errors: Promise<string>;
}

function train(folder: string, ...more: string[]): Started {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", join(ROOT, "cli.ts"), "train", "run.toml", "--json", ...more],
    cwd: folder,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const events: RunEvent[] = [];
  let text = "";
  return {
    child,
    errors: new Response(child.stderr).text(),
    async until(kind) {
      while (!events.some((event) => event.kind === kind)) {
        const { value, done } = await reader.read();
        if (done) break;
        const lines = (text + value).split("\n");
        text = lines.pop()!;
        for (const line of lines) if (line.startsWith("{")) events.push(JSON.parse(line));
      }
      return events;
    },
  };
}

/** A configuration of two attempts at each of two tasks, in a folder whose run has a name of its own. */
async function withRun(
  use: (tested: { folder: string; left: () => Promise<string[]> }) => Promise<void>,
  setup: readonly string[] = [],
): Promise<void> {
  const { program } = labEngine();
  await withFolder(async (folder) => {
    const tasks = await Deno.readTextFile(`${ROOT}examples/tiny_agent_tasks.train.jsonl`);
    const rows = tasks.split("\n").slice(0, 2).map((line) => {
      const row = JSON.parse(line);
      row.metadata.env.setup = setup;
      return `${JSON.stringify(row)}\n`;
    });
    await Deno.writeTextFile(`${folder}/tasks.jsonl`, rows.join(""));
    const name = `run-${crypto.randomUUID()}`;
    await Deno.writeTextFile(
      `${folder}/run.toml`,
      `[run]
algorithm = "agent_grpo"
directory = "${name}"
[model]
path = "${ROOT}fixtures/models/tiny-agent-f16.gguf"
[lora]
rank = 2
[training]
ctx = 1024
[agent]
scenarios = "tasks.jsonl"
updates = 2
scenarios_per_update = 2
group_size = 2
max_turns = 3
max_new_tokens_per_turn = 64
concurrent_rollouts = 4
[agent.environment]
type = "container"
profile = "custom"
image = "${LAB_IMAGE}"
[agent.environment.limits]
memory_mb = 128
[agent.environment.tools]
default = "files"
[checkpoint]
every_updates = 1
`,
    );
    const list = ["ps", "-a", "--filter", `label=svc.run=${name}`, "--format", "{{.Names}}"];
    const left = async () =>
      (await askEngine(program, list)).stdout.split("\n").filter((line) => line !== "");
    await use({ folder, left });
  });
}

function containerRunTest(name: string, body: () => Promise<void>): void {
  gpuTest(name, body, () => REQUIRE_CONTAINERS ? null : NO_CONTAINERS);
}

containerRunTest(
  "a run that is killed while it has containers goes on, and none is left at its end",
  () =>
    withRun(async ({ folder, left }) => {
      const killed = train(folder);
      await killed.until("update");
      ok((await left()).length > 0, "the pool keeps containers ready");
      killed.child.kill("SIGKILL");
      await Promise.all([killed.child.status, killed.errors, killed.until()]);
      const { child, errors, until } = train(folder, "--resume");
      const [events, { code }, text] = await Promise.all([until(), child.status, errors]);
      equal(code, 0, text);
      const updates = events.flatMap((event) => event.kind === "update" ? [[event.lost, event.failure]] : []);
      deepEqual(updates.at(-1), [{}, null]);
      const logged = events.flatMap((event) => event.kind === "log" ? [event.message] : []);
      const says = containersText(labEngine(), {});
      equal(logged.filter((message) => message.includes(says)).length, 1, logged.join("\n"));
      deepEqual(await left(), []);
    }),
);

containerRunTest("an interrupted run leaves no container", () =>
  withRun(async ({ folder, left }) => {
    const { child, errors, until } = train(folder, "agent.updates=200");
    await until("update");
    child.kill("SIGINT");
    const [, { code }, text] = await Promise.all([until(), child.status, errors]);
    equal(code, 130, text);
    deepEqual(await left(), []);
  }));

containerRunTest(
  "a run whose attempts fail to set up says why, and leaves no container",
  () =>
    withRun(async ({ folder, left }) => {
      const { child, errors, until } = train(folder);
      const [, { code }, text] = await Promise.all([until(), child.status, errors]);
      ok(code !== 0 && code !== 130, String(code));
      match(text, /setup line 1 exited with status 7|max_dropped_fraction/);
      deepEqual(await left(), []);
    }, ["exit 7"]),
);
