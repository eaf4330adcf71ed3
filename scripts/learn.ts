/**
 * `deno task learn [--report] [config]`: trains with the configuration (with `--report`: uses the existing run),
 * compares the held-out attempts before and after by scenario and with the same random numbers, and writes the evidence
 * to docs/experiments/. Exit status 1 when the pass rate rises by less than 15 points or the paired 95 % interval is
 * not above 5.
 */

import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { loadRunConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { prepareRun } from "../runs/plan/prepare.ts";
import type { EvaluationEvent, RunEvent, UpdateEvent } from "../runs/record/event.ts";
import { textPlot } from "../runs/record/text_plot.ts";
import { pairedRates } from "./paired_rates.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const OUT = `${ROOT}docs/experiments`;
const WANTED = { rise: 0.15, interval_above: 0.05 };

const is_report = Deno.args.includes("--report");
const config_path = Deno.args.find((argument) => argument !== "--report") ??
  `${ROOT}examples/tiny_agent_learn.toml`;
const name = basename(config_path, ".toml");

async function train(): Promise<void> {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${ROOT}cli.ts`, "train", config_path, "--force"],
    stdout: "inherit",
    stderr: "inherit",
  });
  const { code } = await command.output();
  if (code !== 0) throw new ServiceError("internal", `Cannot learn: svc train exited with status ${code}`);
}

async function readRun(): Promise<RunEvent[]> {
  const { config } = await prepareRun(await loadRunConfig(config_path));
  const lines = (await Deno.readTextFile(`${config.run.directory}/events.jsonl`)).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line) as RunEvent);
}

function report(events: readonly RunEvent[]) {
  const evaluations = events.filter((e): e is RunEvent & EvaluationEvent => e.kind === "evaluation");
  const updates = events.filter((e): e is RunEvent & UpdateEvent => e.kind === "update");
  const rates = evaluations.map(({ update, scenarios }) => ({
    update,
    by_scenario: new Map(scenarios.map((s) => [s.scenario, s.passes / s.attempts])),
  }));
  const before = rates[0]!, after = rates.at(-1)!;
  const ids = [...before.by_scenario.keys()];
  const values = (rate: typeof before) => ids.map((id) => rate.by_scenario.get(id)!);
  const families = [...new Set(ids.map(family))];
  const meanOf = (rate: typeof before, of: readonly string[]) =>
    of.reduce((sum, id) => sum + rate.by_scenario.get(id)!, 0) / of.length;
  const paired = pairedRates(values(before), values(after));
  return {
    config: name,
    attempts_per_scenario: evaluations[0]!.scenarios[0]!.attempts,
    paired,
    is_enough: paired.difference >= WANTED.rise && (paired.low ?? -1) > WANTED.interval_above,
    curve: rates.map((rate) => ({
      update: rate.update,
      all: meanOf(rate, ids),
      ...Object.fromEntries(families.map((f) => [f, meanOf(rate, ids.filter((id) => family(id) === f))])),
    })),
    rewards: updates.map(({ reward_mean }) => reward_mean ?? 0),
    scenarios: ids.map((id) => ({
      id,
      before: before.by_scenario.get(id)!,
      after: after.by_scenario.get(id)!,
    })),
  };
}

/** "heldout-write-0000" belongs to the family "write". */
const family = (id: string) => id.split("-")[1] ?? "all";
const percent = (value: number) => `${(100 * value).toFixed(1)} %`;

function markdown(
  { paired, curve, rewards, attempts_per_scenario, scenarios }: ReturnType<typeof report>,
): string {
  const columns = Object.keys(curve[0]!);
  const row = (cells: string[]) => `| ${cells.join(" | ")} |`;
  const percents = (share: number | null) => share === null ? "none" : (100 * share).toFixed(1);
  return [
    `# ${name}`,
    "",
    `Command: \`deno task learn examples/${name}.toml\` (${scenarios.length} held-out scenarios, ` +
    `${attempts_per_scenario} attempts at each, the same random numbers each time).`,
    "",
    `The pass rate rises by ${
      percents(paired.difference)
    } points; the paired bootstrap interval over scenarios (95 %) goes from ` +
    `${percents(paired.low)} to ${percents(paired.high)}.`,
    "",
    row(columns),
    row(columns.map(() => "---")),
    ...curve.map((point) =>
      row(columns.map((key) => key === "update" ? String(point.update) : percent(point[key as "all"])))
    ),
    "",
    "```",
    textPlot("mean reward by update", rewards),
    "```",
    "",
    `Results by scenario: \`${name}.json\`.`,
    "",
  ].join("\n");
}

async function main(): Promise<number> {
  if (!is_report) await train();
  const result = report(await readRun());
  await writeFileAtomic(`${OUT}/${name}.json`, `${JSON.stringify(result, null, 1)}\n`);
  await writeFileAtomic(`${OUT}/${name}.md`, markdown(result));
  console.log(markdown(result));
  if (result.is_enough) return 0;
  console.error(
    `The rise is not what this experiment must show: at least ${percent(WANTED.rise)}, interval above 5 %.`,
  );
  return 1;
}

Deno.exit(
  await main().catch((error) => {
    console.error(error instanceof ServiceError ? `learn: ${error.message}` : error);
    return 1;
  }),
);
