/**
 * `deno task learn-grid [options]`: runs the learning experiment for each seed, learning rate and bound of an update.
 * Each run appends a line to docs/experiments/learning_rates.jsonl. Runs with a line are not repeated, so the grid can
 * be made in several sessions. A summary of the lines is written next to them.
 *
 *   --seeds 1,2 --rates 3e-3 --bounds 0   only these; absent: all
 *   --parallel <n>                         runs at a time, one core each; absent: 1
 *   --report                               runs nothing
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import type { RunEvent } from "../runs/record/event.ts";
import {
  ATTEMPTS,
  BOUNDS,
  type Cell,
  type GridLine,
  gridReport,
  missingCells,
  RATES,
  SEEDS,
} from "./learn_grid_report.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const CONFIG = `${ROOT}examples/tiny_agent_learn.toml`;
const LINES = `${ROOT}docs/experiments/learning_rates.jsonl`;
const RUNS = `${ROOT}examples/runs/grid`;
const REPORT = `${ROOT}docs/experiments/learning_rates.md`;

/** Metrics of each update that distinguish a falling run from a rising one. */
const WATCHED = [
  "reward/mean",
  "kl/update",
  "kl/update_whole",
  "optimizer/step_scale",
  "optimizer/grad_norm",
  "policy/entropy",
  "agent/malformed_call_fraction",
  "agent/truncated_fraction",
];

async function readLines(): Promise<GridLine[]> {
  const text = await Deno.readTextFile(LINES).catch((error) => {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  });
  return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
}

async function commitOf(): Promise<string> {
  const { stdout } = await new Deno.Command("git", { args: ["rev-parse", "--short=12", "HEAD"], cwd: ROOT })
    .output();
  return new TextDecoder().decode(stdout).trim();
}

/** One core for each process: two that share cores would wait for each other. */
async function svc(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${ROOT}cli.ts`, ...args],
    env: { LP_NUM_THREADS: "1" },
    stdout: "piped",
    stderr: "piped",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (code === 0) return text(stdout);
  throw new ServiceError(
    "internal",
    `Cannot make the grid: svc ${args[0]} exited with status ${code}: ${text(stderr)}`,
  );
}

/**
 * The experiment without [evaluation]: the held-out scenarios are evaluated once before all runs, and once after each.
 */
async function writeTrainingConfig(): Promise<string> {
  const path = `${RUNS}/training.toml`;
  const text = (await Deno.readTextFile(CONFIG)).replaceAll('"../', `"${ROOT}`);
  await writeFileAtomic(path, text.replace(/\[evaluation\]\n([^[].*\n|\n)*/, ""));
  return path;
}

/** Results must not depend on how busy the machine is. */
const NO_TIME_LIMIT = { "agent.max_rollout_secs": 0 };

function overridden(values: Readonly<Record<string, string | number>>): string[] {
  return Object.entries(values).map(([key, value]) => `${key}=${value}`);
}

async function evaluate(update: number, adapter: string[]): Promise<GridLine["evaluations"][number]> {
  const { pass_rate, scenarios, failed } = JSON.parse(
    await svc(
      "eval",
      CONFIG,
      "--json",
      "--samples",
      String(ATTEMPTS),
      ...adapter,
      ...overridden(NO_TIME_LIMIT),
    ),
  ) as EvaluationResult;
  if (Object.keys(failed).length > 0) {
    throw new ServiceError("internal", `Cannot make the grid: attempts failed: ${JSON.stringify(failed)}`);
  }
  return {
    update,
    pass_rate: pass_rate!.rate,
    passes: scenarios.map(({ passes }) => passes).join(""),
  };
}

/** Trains a cell to its end. */
async function train(
  { seed, lr, max_update_kl }: Cell,
  before: GridLine["evaluations"][number],
): Promise<GridLine> {
  const directory = `${RUNS}/${seed}_${lr}_${max_update_kl}`;
  const overrides = {
    "run.directory": directory,
    "run.seed": seed,
    "training.lr": lr,
    "agent.max_update_kl": max_update_kl,
    // A run that falls is measured to its end.
    "agent.max_dropped_fraction": 1,
    ...NO_TIME_LIMIT,
  };
  await svc("train", `${RUNS}/training.toml`, "--force", ...overridden(overrides));
  const events = (await Deno.readTextFile(`${directory}/events.jsonl`)).trimEnd().split("\n")
    .map((line) => JSON.parse(line) as RunEvent);
  const metrics = events.filter((event) => event.kind === "metrics")
    .filter(({ values }) => "time/train_seconds" in values);
  const after = await evaluate(metrics.at(-1)!.update, ["--adapter", `${directory}/adapter.gguf`]);
  return {
    by: "svc",
    seed,
    lr,
    max_update_kl,
    commit: await commitOf(),
    evaluations: [before, after],
    by_update: Object.fromEntries(
      WATCHED.map((name) => [name, metrics.map(({ values }) => values[name] ?? null)]),
    ),
  };
}

/** Runs several cells at a time; each writes its line as soon as it has ended. */
async function makeMissing(missing: Cell[], parallel: number): Promise<void> {
  if (missing.length === 0) return;
  await writeTrainingConfig();
  // One evaluation of the untrained model is in all lines.
  const before = (await readLines()).find(({ by }) => by === "svc")?.evaluations[0] ?? await evaluate(0, []);
  const next = async (): Promise<void> => {
    for (let cell = missing.shift(); cell; cell = missing.shift()) {
      const line = await train(cell, before);
      await Deno.writeTextFile(LINES, `${JSON.stringify(line)}\n`, { append: true });
      await report();
      const { seed, lr, max_update_kl, evaluations } = line;
      const rates = evaluations.map(({ pass_rate }) => (100 * pass_rate).toFixed(1)).join(" ");
      console.log(`seed ${seed}, lr ${lr}, max_update_kl ${max_update_kl}: ${rates} %`);
    }
  };
  await Promise.all(Array.from({ length: parallel }, next));
}

async function report(): Promise<void> {
  await writeFileAtomic(REPORT, gridReport(await readLines()));
}

if (import.meta.main) {
  const text = { type: "string" } as const;
  const options = {
    seeds: text,
    rates: text,
    bounds: text,
    parallel: text,
    report: { type: "boolean" },
  } as const;
  const numbers = (list: string | undefined, all: readonly number[]) => list?.split(",").map(Number) ?? all;
  try {
    const { values } = parseArgs({ args: Deno.args, options });
    const wanted = {
      seeds: numbers(values.seeds, SEEDS),
      rates: numbers(values.rates, RATES),
      bounds: numbers(values.bounds, BOUNDS),
    };
    if (!values.report) {
      await makeMissing(missingCells(await readLines(), wanted), Number(values.parallel ?? 1));
    }
    await report();
  } catch (error) {
    console.error(error instanceof ServiceError ? `learn-grid: ${error.message}` : error);
    Deno.exit(1);
  }
}
