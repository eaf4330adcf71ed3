/**
 * A run's process on a scripted engine, with the arguments of `svc train`: for tests of whoever starts, commands and
 * kills such processes. Its configuration is the TOML that `svc train` would read, of which only the number of updates
 * and the identity count, or JSON: `{"updates": 3, "gate": "<folder>"}`, also as a comment in its first line. With a
 * gate, update n writes the file `n.waits` in that folder, and waits for the file `n`. The variable `SCRIPTED_GATE` names
 * the gate of runs with TOML.
 * `probe` in place of `train` answers requests about it, `calibrate` with fixed measurements or as `--calibration` says:
 * `dies`, `hangs`, the code of a failure, or changed measurements as JSON.
 */

import { parseArgs } from "node:util";
import { parse } from "smol-toml";
import type { ResolvedConfig } from "../config/check/derive.ts";
import { systemClock } from "../core/clock.ts";
import { loadRunConfig } from "../config/check/load.ts";
import { DeviceLock } from "../core/device_lock.ts";
import { type ErrorCode, errorRecord, ServiceError } from "../core/errors.ts";
import type { ScriptedRun } from "../runs/fleet/fleet_testing.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import { serveCalibration } from "../runs/process/calibrate.ts";
import { streamPort } from "../runs/process/control.ts";
import { serveProbe } from "../runs/process/probe.ts";
import { noMessages, startTestRun, testAgentHost, testPrepared, testRunConfig } from "../runs/run_fake.ts";
import { outOfMemory } from "../trainer/engine/memory_advice.ts";
import type { EngineClient } from "../trainer/protocol/client.ts";
import type { EngineMethod, LoadRequest } from "../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";

const POLL_MS = 5;

async function waitFor(path: string): Promise<void> {
  while (!await Deno.stat(path).then(() => true, () => false)) await systemClock.sleep(POLL_MS);
}

async function readRun(path: string): Promise<ScriptedRun> {
  const text = await Deno.readTextFile(path);
  // JSON in the first line of a TOML file is a comment for those who read the configuration.
  const json = /^(?:# )?(\{.*)/.exec(text);
  if (json) return JSON.parse(json[1]!);
  const { identity } = await prepareRun(await loadRunConfig(path), { by_client: true });
  const { agent, training } = parse(text) as Record<string, { updates?: number } | undefined>;
  const gate = Deno.env.get("SCRIPTED_GATE");
  return { updates: agent?.updates ?? training?.updates ?? 3, identity, ...(gate && { gate }) };
}

/** The adapter that a run leaves. */
const resultIn = (directory: string) => `${directory}/adapter.gguf`;

/** A change of the test's configuration to that of a server's run. */
const placedIn =
  (directory: string, { updates = 3, evaluates = true }: ScriptedRun) => (config: ResolvedConfig) => {
    config.run.directory = directory;
    config.output.path = resultIn(directory);
    config.checkpoint!.directory = `${directory}/checkpoints`;
    config.agent!.updates = updates;
    if (!evaluates) delete config.evaluation;
  };

type Refuse = (method: EngineMethod, request: unknown) => void | Promise<void>;

/** Takes the lock of a GPU when the model is loaded, as an engine does. */
const locking = (device: string, refuse: Refuse): Refuse => async (method, request) => {
  if (method === "load") await DeviceLock.take((request as LoadRequest).claim!, { device, webgpu: "deno" });
  await refuse(method, request);
};

function scriptedEngine({ hang, gate, gpu }: ScriptedRun, refuse: Refuse = () => {}): EngineClient {
  return new ScriptedEngine({
    refuse: gpu === undefined ? refuse : locking(gpu, refuse),
    script({ max_tokens }) {
      if (max_tokens !== hang) return undefined;
      if (gate !== undefined) {
        Deno.mkdirSync(gate, { recursive: true });
        Deno.writeTextFileSync(`${gate}/hangs`, "");
      }
      return "hang";
    },
  }).client;
}

async function probe(directory: string, scripted: ScriptedRun): Promise<void> {
  const config = testRunConfig({ root: directory, change: placedIn(directory, scripted) });
  const { definition, files, createAlgorithm } = testPrepared(config);
  const same = scripted.identity ?? { "model.path": "m" };
  const identity = scripted.probe === "changed" ? { ...same, "model.path": "other" } : same;
  await serveProbe({
    control: streamPort(Deno.stdin.readable, Deno.stdout),
    read: () => Promise.resolve({ config, definition, identity, files, createAlgorithm }),
    openSession: () => {
      if (scripted.probe === "dies") Deno.exit(1);
      const engine = scriptedEngine(scripted, (method) => {
        if (method !== "load" || scripted.probe !== "full") return;
        throw outOfMemory(`load ${directory}/m.gguf`, { kv: 1e9, weights: 3e9, adapters: 5, loss: 4 });
      });
      const agent = testAgentHost({ config, engine, clock: systemClock });
      return Promise.resolve({ engine, agent, messages: noMessages(), close: () => Promise.resolve() });
    },
  });
  Deno.exit(0);
}

/** What such a process measures. */
const SCRIPTED_CALIBRATION = {
  seconds: 3,
  tokens: 100,
  bytes: { weights: 1000, adapters: 30, kv: 500 },
};

async function calibrate(path: string, calibration = "{}"): Promise<void> {
  if (calibration === "dies") Deno.exit(1);
  const { model } = parse(await Deno.readTextFile(path)) as { model: { path: string } };
  await serveCalibration(streamPort(Deno.stdin.readable, Deno.stdout), () => {
    if (calibration === "hangs") return new Promise(() => {});
    if (calibration.startsWith("{")) {
      return Promise.resolve({ ...SCRIPTED_CALIBRATION, ...JSON.parse(calibration) });
    }
    const [message, details] = calibration === "out_of_memory"
      ? ["Cannot allocate weights: /secret/place", {}]
      : [`Cannot read ${model.path}: it is broken on purpose`, { path: model.path }];
    return Promise.reject(new ServiceError(calibration as ErrorCode, message, details));
  });
  Deno.exit(0);
}

async function main(): Promise<void> {
  const boolean = { type: "boolean" } as const, string = { type: "string" } as const;
  const { values, positionals } = parseArgs({
    options: {
      ...{ control: boolean, resume: boolean, adopt: string, fork: string, "learning-rate": string },
      calibration: string,
    },
    allowPositionals: true,
  });
  if (positionals[0] === "calibrate") return await calibrate(positionals[1]!, values.calibration);
  const path = positionals[1]!, directory = path.replace(/\/[^/]+$/, "");
  const scripted = await readRun(path);
  const { gate, fatal, identity, saves } = scripted, result = resultIn(directory);
  if (positionals[0] === "probe") return await probe(directory, scripted);
  if (fatal !== undefined) throw new Error(fatal);
  let update = 0;
  const run = await startTestRun({
    root: directory,
    clock: systemClock,
    ...(identity && { identity }),
    change: placedIn(directory, scripted),
    newEngine(refuse) {
      const client = scriptedEngine(scripted, refuse);
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
        const is_result = method === "adapter_save" && (request as { path: string }).path === result;
        if (is_result && saves !== undefined) {
          await Deno.writeTextFile(`${saves}.waits`, "");
          await waitFor(saves);
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
  if (scripted.leaves !== undefined) await waitFor(scripted.leaves);
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
