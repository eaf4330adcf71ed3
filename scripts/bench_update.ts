/**
 * `deno task bench-update [--updates <n>] [--repeats <n>] [--against <checkout>] [--python <program>]`: the seconds of a
 * GRPO update (4 groups of 8 attempts at file tasks with the tiny model) in this program, in PyTorch, and in another
 * checkout of this program, which take turns. The first update of each, which compiles kernels, is left out. Prints each
 * and stores them in docs/bench/update.jsonl. Nothing asserts a time.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { fixturePath } from "../tests/fixture.ts";
import { withFolder } from "../tests/folder.ts";
import { currentCommit, machineName, round } from "./bench/report.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const RESULTS = join(ROOT, "docs/bench/update.jsonl");
const GROUPS = 4, SIZE = 8, SEED = 1;
/** Numbers of PyTorch's threads. A BLAS has threads that compete with them, or uses them: which is faster depends on that. */
const THREADS = [1, 2];

/** Seconds and sizes of one update. */
interface Update {
  rollout_seconds: number;
  train_seconds: number;
  attempts: number;
  /** That the model wrote. */
  tokens: number;
}

/** One that is measured: what it is called, and its updates when it runs once. */
interface Competitor {
  by: string;
  run: (updates: number) => Promise<Update[]>;
}

/** Lines of JSON that a program prints. @throws {ServiceError} When it fails. */
async function linesOf(program: string, args: readonly string[]): Promise<Record<string, unknown>[]> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args: [...args] }).output();
  const text = new TextDecoder();
  if (!success) {
    throw new ServiceError("internal", `Cannot measure: ${program} failed:\n${text.decode(stderr)}`);
  }
  return text.decode(stdout).split("\n").filter((line) => line.startsWith("{")).map((line) =>
    JSON.parse(line)
  );
}

/** The run's file: the work of the reference in PyTorch, so no evaluation and no bound of the policy's change. */
function configuration(updates: number, paths: { model: string; scenarios: string }): string {
  return `[run]
algorithm = "agent_grpo"
seed = ${SEED}

[model]
path = ${JSON.stringify(paths.model)}

[lora]
rank = 8
alpha = 16

[training]
ctx = 1024
lr = 3e-3

[agent]
scenarios = ${JSON.stringify(paths.scenarios)}
updates = ${updates}
scenarios_per_update = ${GROUPS}
group_size = ${SIZE}
max_turns = 6
max_new_tokens_per_turn = 96
truncation = "drop"
max_update_kl = 0

[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]

[checkpoint]
every_updates = ${updates}
`;
}

/** The updates of a run by its events. */
export function updatesOf(events: readonly Record<string, unknown>[]): Update[] {
  return events.filter(({ kind }) => kind === "metrics").map(({ values }) => {
    const metrics = values as Record<string, number>;
    const attempts = GROUPS * SIZE, seconds = metrics["time/rollout_seconds"]!;
    return {
      rollout_seconds: seconds,
      train_seconds: metrics["time/train_seconds"]!,
      attempts,
      tokens: Math.round(metrics["tokens/generated_per_second"]! * seconds),
    };
  });
}

function ours(by: string, checkout: string, paths: { model: string; scenarios: string }): Competitor {
  const run = (updates: number) =>
    withFolder(async (folder) => {
      const config = join(folder, "update.toml");
      await Deno.writeTextFile(config, configuration(updates, paths));
      const entry = join(checkout, "cli.ts"), settings = join(checkout, "deno.json");
      const args = ["run", "-A", "--config", settings, entry, "train", config, "--json"];
      return updatesOf(await linesOf(Deno.execPath(), args));
    });
  return { by, run };
}

function pytorch(python: string, threads: number, paths: { model: string }): Competitor {
  const agent = join(ROOT, "fixtures/models/tiny-agent");
  const run = async (updates: number) => {
    const args = [
      ...[join(ROOT, "scripts/bench_update_pytorch.py"), "--model", paths.model],
      ...["--tokenizer", join(agent, "recipe/tokenizer.json"), "--scenarios", agent],
      ...["--updates", updates, "--groups", GROUPS, "--size", SIZE, "--seed", SEED, "--threads", threads],
    ];
    return await linesOf(python, args.map(String)) as unknown as Update[];
  };
  return { by: `pytorch, ${threads} thread${threads === 1 ? "" : "s"}`, run };
}

/** Whether a Python has PyTorch. */
export async function hasTorch(python: string): Promise<boolean> {
  const probe = new Deno.Command(python, { args: ["-c", "import torch"], stdout: "null", stderr: "null" });
  return await probe.output().then(({ success }) => success, () => false);
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** The mean of updates. */
export function summary(updates: readonly Update[]) {
  const of = (key: keyof Update) => mean(updates.map((update) => update[key]));
  const seconds = of("rollout_seconds") + of("train_seconds");
  return {
    seconds: round(seconds),
    rollout_seconds: round(of("rollout_seconds")),
    train_seconds: round(of("train_seconds")),
    tokens: round(of("tokens")),
    updates: updates.length,
  };
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      updates: { type: "string", default: "8" },
      repeats: { type: "string", default: "2" },
      against: { type: "string" },
      python: { type: "string", default: "python3" },
    },
  });
  const updates = Number(values.updates), repeats = Number(values.repeats);
  const paths = {
    model: await fixturePath("models/tiny-agent-f16.gguf"),
    scenarios: await fixturePath("models/tiny-agent/scenarios.train.jsonl"),
  };
  const competitors = [ours("svc", ROOT, paths)];
  if (values.against !== undefined) competitors.push(ours("svc, other checkout", values.against, paths));
  if (await hasTorch(values.python)) {
    competitors.push(...THREADS.map((threads) => pytorch(values.python, threads, paths)));
  } else console.log(`PyTorch is not measured: ${values.python} has no module torch`);
  const measured = competitors.map((): Update[] => []);
  for (let repeat = 0; repeat < repeats; repeat++) {
    const order = [...competitors.keys()];
    if (repeat % 2 === 1) order.reverse();
    for (const i of order) measured[i]!.push(...(await competitors[i]!.run(updates)).slice(1));
  }
  const facts = { machine: await machineName(), commit: await currentCommit(), deno: Deno.version.deno };
  const [load_average] = Deno.loadavg(), first = summary(measured[0]!);
  const lines = competitors.map(({ by }, i) => {
    const own = summary(measured[i]!);
    const line = { bench: "update", by, ...own, ratio: round(own.seconds / first.seconds) };
    console.log(line);
    return JSON.stringify({ ...line, ...facts, load_average, time: new Date().toISOString() });
  });
  await writeFileAtomic(RESULTS, `${lines.join("\n")}\n`);
}
