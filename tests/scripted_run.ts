/**
 * A run's process on a scripted engine, with the arguments of `svc train`: for tests of whoever starts, commands and
 * kills such processes. Its configuration is the TOML that `svc train` would read, of which only the number of updates
 * counts, or JSON: `{"updates": 3, "gate": "<folder>"}`. With a gate, update n writes the file `n.waits` in that
 * folder, and waits for the file `n`.
 */

import { parseArgs } from "node:util";
import { parse } from "smol-toml";
import { systemClock } from "../core/clock.ts";
import { errorRecord } from "../core/errors.ts";
import { streamPort } from "../runs/process/control.ts";
import { startTestRun } from "../runs/run_fake.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";

/** What a scripted run does. */
export interface ScriptedRun {
  updates?: number;
  /** The folder with a file for each update that may be trained. */
  gate?: string;
  /** The run fails at its start with this message. */
  fatal?: string;
}

const POLL_MS = 5;

async function waitFor(path: string): Promise<void> {
  while (!await Deno.stat(path).then(() => true, () => false)) await systemClock.sleep(POLL_MS);
}

/** Of a real configuration only the number of updates counts. */
function scriptedRun(text: string): ScriptedRun {
  if (text.startsWith("{")) return JSON.parse(text);
  const { agent, training } = parse(text) as Record<string, { updates?: number } | undefined>;
  return { updates: agent?.updates ?? training?.updates ?? 3 };
}

async function main(): Promise<void> {
  const boolean = { type: "boolean" } as const, string = { type: "string" } as const;
  const { values, positionals } = parseArgs({
    options: { control: boolean, resume: boolean, adopt: string, fork: string, "learning-rate": string },
    allowPositionals: true,
  });
  const path = positionals[1]!, directory = path.replace(/\/[^/]+$/, "");
  const { updates = 3, gate, fatal } = scriptedRun(await Deno.readTextFile(path));
  if (fatal !== undefined) throw new Error(fatal);
  let update = 0;
  const run = await startTestRun({
    root: directory,
    clock: systemClock,
    change(config) {
      config.run.directory = directory;
      config.output.path = `${directory}/adapter.gguf`;
      config.checkpoint!.directory = `${directory}/checkpoints`;
      config.agent!.updates = updates;
    },
    newEngine(refuse) {
      const { client } = new ScriptedEngine({ refuse });
      const call = client.call.bind(client);
      client.call = async (method, request, ...rest) => {
        if (method === "checkpoint_load") {
          update = Number(/update_(\d+)/.exec((request as { directory: string }).directory)![1]);
        }
        if (method === "train_step" && gate !== undefined) {
          await Deno.mkdir(gate, { recursive: true });
          await Deno.writeTextFile(`${gate}/${++update}.waits`, "");
          await waitFor(`${gate}/${update}`);
        }
        return await call(method, request, ...rest);
      };
      return client;
    },
    start: {
      mode: values.resume ? "resume" : values.fork === undefined ? "new" : "fork",
      checkpoint: values.fork ?? null,
      adopt: values.adopt!,
      ...(values["learning-rate"] && { learning_rate: Number(values["learning-rate"]) }),
      control: streamPort(Deno.stdin.readable, Deno.stdout),
    },
  });
  await run.ended;
}

/** Runs as a program does, and ends the process. */
export async function runScripted(): Promise<never> {
  try {
    await main();
  } catch (error) {
    console.log(JSON.stringify({ fatal: errorRecord(error) }));
    Deno.exit(1);
  }
  Deno.exit(0);
}

if (import.meta.main) await runScripted();
