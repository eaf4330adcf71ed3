/** `svc judge eval`: measures a judge against labelled fixtures. */

import { type Command, Option } from "commander";
import { configuredJudge } from "../agent/judge/configured_judge.ts";
import { evaluateJudge, type JudgeEvaluation, type JudgeStatistics } from "../agent/judge/evaluate_judge.ts";
import type { Estimate } from "../agent/judge/rank_statistics.ts";
import { loadRunConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { indented, jsonText, printable } from "../core/text.ts";
import { type LabelKind, labelKind, readJudgeFixtures } from "../data/judge_fixture.ts";
import type { CliContext } from "./context.ts";
import { EXIT } from "./exit_codes.ts";
import { interruptible } from "./interruptible.ts";
import { overridesArgument } from "./options.ts";
import type { Terminal } from "./terminal.ts";

interface JudgeEvalOptions {
  fixtures: string;
  labels?: LabelKind;
  seed?: string;
  json?: true;
}

/** The printed statistics, in order, each with what it says. */
const STATISTICS: Readonly<Record<keyof JudgeStatistics, readonly [name: string, meaning: string]>> = {
  kendall_tau: ["Kendall τ-b", "order of scores and labels; 1 is the same, 0 none"],
  spearman_rho: ["Spearman ρ", "the same, by ranks"],
  pair_accuracy: ["pair accuracy", "pairs in the order of their labels; 0.5 is chance"],
  self_agreement: ["self-agreement", "pairs ordered alike when the order of attempts is reversed"],
  position_bias: ["position bias", "above 0: attempts shown earlier win more often"],
};

function printEvaluation(terminal: Terminal, evaluation: JudgeEvaluation): void {
  const { labels, fixtures, failed, tokens, statistics } = evaluation;
  const kind = labels === "ranks"
    ? "ranks, of which 1 is the best"
    : "scores, of which the largest is the best";
  terminal.line(`${fixtures.length} groups, each judged in two orders; the labels are ${kind}`);
  terminal.line(`${"".padEnd(16)}${"value".padStart(7)}  ${"95 % interval".padEnd(18)}groups`);
  for (const [key, [name, meaning]] of Object.entries(STATISTICS)) {
    const { value, interval, groups }: Estimate = statistics[key as keyof JudgeStatistics];
    const number = (given: number) => given.toFixed(3);
    const between = interval ? `${number(interval[0])} to ${number(interval[1])}` : "–";
    const shown = value === null ? "–" : number(value);
    terminal.line(
      `${name.padEnd(16)}${shown.padStart(7)}  ${between.padEnd(18)}${String(groups).padEnd(8)}${meaning}`,
    );
  }
  terminal.line(`${tokens} tokens`);
  for (const { id, message } of failed) {
    terminal.line(printable(indented(`failed: ${JSON.stringify(id)}: ${message}`)));
  }
}

async function evaluate(
  path: string,
  overrides: string[],
  { options, context }: { options: JudgeEvalOptions; context: CliContext },
): Promise<void> {
  const { terminal, clock } = context;
  const loaded = await loadRunConfig(path, { check_paths: false, overrides }), { config } = loaded;
  const section = config.agent?.judge;
  if (!section) {
    throw new ServiceError("config_invalid", `Cannot evaluate the judge: ${path} has no [agent.judge]`);
  }
  const fixtures = await readJudgeFixtures(options.fixtures);
  const labels = options.labels ?? labelKind(fixtures);
  const seed = options.seed === undefined ? config.run.seed : seedOf(options.seed);
  await using own = section.type === "local" ? await context.openJudgeModel(loaded) : null;
  const { judge, close } = configuredJudge(section, { seed, clock, base_model: own?.model ?? null });
  try {
    const evaluation = await interruptible(
      "Cannot finish the evaluation of the judge: interrupted",
      context,
      async (signal) => {
        await judge.start(signal);
        return await evaluateJudge(judge, { fixtures, labels, seed, signal });
      },
    );
    if (options.json) terminal.line(jsonText(evaluation));
    else printEvaluation(terminal, evaluation);
    if (evaluation.fixtures.length === 0) context.setExitCode(EXIT.failed);
  } finally {
    await close();
  }
}

function seedOf(text: string): number {
  const seed = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(seed)) return seed;
  throw new ServiceError(
    "config_invalid",
    `Cannot use --seed ${JSON.stringify(text)}: it must be an integer from 0`,
  );
}

/** Adds the command. */
export function addJudgeCommand(program: Command, context: CliContext): void {
  const judge = program.command("judge").description("about the judge of a configuration");
  judge.command("eval").description("measure a judge against labelled fixtures")
    .argument("<config>", "run configuration (TOML) with [agent.judge]").addArgument(overridesArgument())
    .requiredOption("--fixtures <file>", "labelled groups of attempts (JSONL)")
    .addOption(
      new Option("--labels <kind>", "what the labels are (default: ranks where they look like ranks)")
        .choices(["scores", "ranks"]),
    )
    .option("--seed <number>", "seed of the orders and the intervals (default: run.seed)")
    .option("--json", "print everything as JSON, with the scores of each group")
    .action((path: string, overrides: string[], options: JudgeEvalOptions) =>
      evaluate(path, overrides, { options, context })
    );
}
