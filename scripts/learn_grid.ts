/**
 * `deno task learn-grid [options]`: the learning experiment once for each seed, learning rate and bound of an update.
 * Each run appends a line to docs/experiments/learning_rates.jsonl; what has its line is not run again, so that the
 * grid can be made in pieces. What the lines come to is written beside them.
 *
 *   --seeds 1,2 --rates 3e-3 --bounds 0   these alone; left out: all
 *   --parallel <n>                         runs at a time, a core each; left out: 1
 *   --report                               runs nothing
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import type { RunEvent } from "../runs/event.ts";
import {
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
const REPORT = `${ROOT}docs/experiments/learning_rates.md`;

/** Metrics of each update that tell a falling run from a rising one. */
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

/** Trains a cell to its end. A core for each run: two that share the cores' threads wait for each other. */
async function train({ seed, lr, max_update_kl }: Cell): Promise<GridLine> {
  const directory = `${ROOT}examples/runs/grid_${seed}_${lr}_${max_update_kl}`;
  const overrides = { "run.seed": seed, "training.lr": lr, "agent.max_update_kl": max_update_kl };
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", `${ROOT}cli.ts`, "train", CONFIG, "--force", `run.directory=${directory}`],
      ...Object.entries(overrides).map(([key, value]) => `${key}=${value}`),
    ],
    env: { LP_NUM_THREADS: "1" },
    stdout: "null",
    stderr: "piped",
  }).output();
  if (code !== 0) {
    const text = new TextDecoder().decode(stderr);
    throw new ServiceError("internal", `Cannot make the grid: a run ended with ${code}: ${text}`);
  }
  const events = (await Deno.readTextFile(`${directory}/events.jsonl`)).trimEnd().split("\n")
    .map((line) => JSON.parse(line) as RunEvent);
  const metrics = events.filter((event) => event.kind === "metrics");
  return {
    by: "svc",
    seed,
    lr,
    max_update_kl,
    commit: await commitOf(),
    evaluations: events.filter((event) => event.kind === "evaluation").map((event) => ({
      update: event.update,
      pass_rate: event.pass_rate!.rate,
      by_scenario: Object.fromEntries(event.scenarios.map((s) => [s.scenario, s.passes / s.attempts])),
    })),
    by_update: Object.fromEntries(WATCHED.map((name) => [
      name,
      metrics.filter(({ values }) => "time/train_seconds" in values).map(({ values }) =>
        values[name] ?? null
      ),
    ])),
  };
}

/** Several runs at a time; each writes its line as soon as it has ended. */
async function makeMissing(missing: Cell[], parallel: number): Promise<void> {
  const next = async (): Promise<void> => {
    for (let cell = missing.shift(); cell; cell = missing.shift()) {
      const line = await train(cell);
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
