/**
 * Counts how processes that used the device end: `deno task exits --runs 2000 --parallel 3 --load 2`.
 *
 * Runs each path of the program in turn, beside busy loops that occupy the processors, so that threads are interrupted
 * where they would not be on a quiet machine. Each path has one correct exit status; anything else is a fault, and the
 * exit status is then 1.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { endProcess } from "../cli/end_process.ts";
import { prepareGpuEnvironment } from "../cli/environment.ts";
import { permissionsFor } from "../core/permissions.ts";
import { webGpuNeeds } from "../core/webgpu_providers.ts";
import { startEngine } from "../runs/session/workers.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SELF = fileURLToPath(import.meta.url);
const CLI = join(ROOT, "cli.ts");
const MODELS = join(ROOT, "fixtures/models");

const RUN = `[run]
algorithm = "sft"
[model]
path = ${JSON.stringify(join(MODELS, "tiny-agent-f16.gguf"))}
[lora]
rank = 2
[sft]
data = ${JSON.stringify(join(MODELS, "tiny-agent/sft-traces.jsonl"))}
[training]
ctx = 640
batch_tokens = 640
micro_batch_tokens = 640
updates = 1
[evaluation]
data = ${JSON.stringify(join(MODELS, "tiny-agent/sft-traces.jsonl"))}
max_examples = 1
[checkpoint]
every_updates = 100
`;

interface Path {
  what: string;
  args: string[];
  code: number;
  /** The number of processes of forty that take this path: more for short ones. */
  share: number;
  /** When standard output contains this text, the process is told twice to stop, in the middle of its work. */
  leave_at?: string;
}

/** Runs this script as a process whose engine worker opens the device, answers, and closes. */
const ENGINE = "--engine";

const PATHS: Path[] = [
  { what: "engine worker: opens the device and closes", args: [ENGINE], code: 0, share: 24 },
  { what: "svc doctor: the device on the main thread", args: ["doctor"], code: 0, share: 11 },
  { what: "svc eval, to its end", args: ["eval", "run.toml"], code: 0, share: 1 },
  { what: "svc train, to its end", args: ["train", "run.toml"], code: 0, share: 1 },
  {
    what: "svc train, left at once while it works",
    args: ["train", "run.toml", "--json"],
    code: 130,
    share: 3,
    leave_at: '"state":"running"',
  },
];

/** The order of paths, as indices. */
const TURNS = PATHS.flatMap(({ share }, i) => Array.from({ length: share }, () => i));

async function openAndClose(): Promise<void> {
  const permissions = permissionsFor(webGpuNeeds("auto"));
  const engine = startEngine({ entry_url: new URL("../cli.ts", import.meta.url).href, permissions });
  await engine.client.call("probe", { device: "auto", webgpu: "auto" });
  await engine.close();
}

/** Runs a path in its own folder, and returns how the process ended: an exit status or the name of a signal. */
async function runOnce(path: Path): Promise<string> {
  const folder = await Deno.makeTempDir({ prefix: "svc-exit-" });
  try {
    await Deno.writeTextFile(join(folder, "run.toml"), RUN);
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", ...(path.args[0] === ENGINE ? [SELF] : [CLI]), ...path.args],
      cwd: folder,
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    let out = "", has_left = false;
    for await (const piece of child.stdout.pipeThrough(new TextDecoderStream())) {
      out += piece;
      if (has_left || path.leave_at === undefined || !out.includes(path.leave_at)) continue;
      has_left = true;
      for (const signal of ["SIGINT", "SIGTERM"] as const) child.kill(signal);
    }
    const { code, signal } = await child.status;
    return signal ?? String(code);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs the paths in turn, several at a time; resolves with the number of each ending. */
async function count(runs: number, parallel: number): Promise<Map<string, number>[]> {
  const endings = PATHS.map(() => new Map<string, number>());
  let next = 0;
  const worker = async () => {
    while (next < runs) {
      const at = TURNS[next++ % TURNS.length]!;
      const ending = await runOnce(PATHS[at]!);
      endings[at]!.set(ending, (endings[at]!.get(ending) ?? 0) + 1);
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  return endings;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      runs: { type: "string", default: "200" },
      parallel: { type: "string", default: "2" },
      load: { type: "string", default: "2" },
      engine: { type: "boolean", default: false },
    },
  });
  if (values.engine) return await openAndClose(), 0;
  const load = Array.from(
    { length: Number(values.load) },
    () => new Deno.Command(Deno.execPath(), { args: ["eval", "for (;;);"], stdin: "null" }).spawn(),
  );
  try {
    const endings = await count(Number(values.runs), Number(values.parallel));
    let faults = 0;
    for (const [i, { what, code }] of PATHS.entries()) {
      const counts = Object.fromEntries([...endings[i]!].sort());
      const total = [...endings[i]!.values()].reduce((sum, n) => sum + n, 0);
      faults += total - (endings[i]!.get(String(code)) ?? 0);
      console.log(JSON.stringify({ path: what, runs: total, expected: code, endings: counts }));
    }
    console.log(JSON.stringify({ runs: Number(values.runs), faults }));
    return faults === 0 ? 0 : 1;
  } finally {
    for (const child of load) {
      child.kill("SIGKILL");
      await child.status;
    }
  }
}

prepareGpuEnvironment();
endProcess(await main());
