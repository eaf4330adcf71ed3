/** `svc collect`: writes successful attempts at a configuration's scenarios as training data. */

import { type Command, InvalidArgumentError } from "commander";
import { resolve } from "node:path";
import { type CollectionReport, TraceCollector } from "../agent/results/collect.ts";
import { firstFailure, type ReasonCounts, reasonsText, type ScenarioFailure } from "../agent/rollout/lost.ts";
import { type LoadedConfig, loadRunConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { writeFileAtomic } from "../core/files.ts";
import { indented, jsonText, printable } from "../core/text.ts";
import type { ActivityFeed } from "../runs/record/activity.ts";
import { counted, formatRate, warningText } from "../runs/record/event_text.ts";
import { passRate } from "../runs/record/pass_rate.ts";
import { checkCollectionOutputs } from "./collection_outputs.ts";
import type { CliContext } from "./context.ts";
import { EXIT } from "./exit_codes.ts";
import { GrowingFile, growingPath } from "./growing_file.ts";
import { interruptible, withStatusLine } from "./interruptible.ts";
import { numberFor, overridesArgument } from "./options.ts";
import type { Terminal } from "./terminal.ts";

/** Attempts at each scenario, and the most traces kept of them, where the command line says nothing. */
const DEFAULT_K = 8, DEFAULT_KEEP = 2;

interface CollectCommandOptions {
  out: string;
  k: number;
  keep?: number;
  report?: string;
  pairs?: true;
  api?: true;
  model?: string;
  minReward?: number;
  limit?: number;
  seed?: number;
  minGap?: number;
  force?: true;
}

/** The configuration with the command line's model and seed, and without held-out data, which no attempt uses. */
async function loadedFor(
  path: string,
  overrides: string[],
  { model, seed }: CollectCommandOptions,
): Promise<LoadedConfig> {
  const loaded = await loadRunConfig(path, {
    overrides: [
      ...overrides,
      ...(model === undefined ? [] : [`model.path=${model}`]),
      ...(seed === undefined ? [] : [`run.seed=${seed}`]),
    ],
  });
  if (loaded.config.agent) return loaded;
  throw new ServiceError(
    "config_invalid",
    `Cannot collect: ${path} has algorithm = "${loaded.config.run.algorithm}", and scenarios to attempt are in [agent]`,
  );
}

function checkOptions({ pairs, keep, minGap, api, model }: CollectCommandOptions): void {
  const refuse = (reason: string) => {
    throw new ServiceError("config_invalid", `Cannot collect: ${reason}`);
  };
  if (pairs && keep !== undefined) {
    refuse("--pairs writes one pair of each scenario, so --keep has no meaning");
  }
  if (!pairs && minGap !== undefined) refuse("--min-gap is about --pairs");
  if (api && model !== undefined) refuse("--api and --model name two models for the attempts");
}

/** The sums of a collection. */
class Collected {
  rows = 0;
  /** Kept traces that train other tokens than were sampled. */
  rewritten = 0;
  readonly lost: ReasonCounts = {};
  readonly reports: Record<string, CollectionReport> = {};
  failure: ScenarioFailure | null = null;
  attempts = 0;

  take(scenario: string, report: CollectionReport, lost: ReasonCounts): void {
    this.rows += report.kept;
    this.attempts += report.attempts;
    this.reports[scenario] = report;
    for (const [reason, n] of Object.entries(lost)) this.lost[reason] = (this.lost[reason] ?? 0) + n;
  }

  /** The reasons why there are no more rows, the most frequent first. */
  get reasons(): string {
    const sorted = Object.entries(this.lost).toSorted(([a, n], [b, m]) => m - n || (a < b ? -1 : 1));
    return reasonsText(Object.fromEntries(sorted));
  }
}

async function collect(
  path: string,
  overrides: string[],
  { options, context }: { options: CollectCommandOptions; context: CliContext },
): Promise<void> {
  const { terminal } = context;
  checkOptions(options);
  const loaded = await loadedFor(path, overrides, options);
  await checkCollectionOutputs(options, loaded);
  const file = await GrowingFile.open(resolve(options.out));
  let sums: Collected;
  try {
    sums = await interruptible(
      "Cannot finish the collection: interrupted",
      context,
      (signal) =>
        withStatusLine(
          terminal.interactive,
          context,
          (activity, tell) => collectInto(file, { loaded, options, context, signal, activity, tell }),
        ),
    );
    if (sums.rows > 0) await file.finish();
  } finally {
    if (await file.leave()) {
      terminal.error(printable(`svc: ${counted(file.lines, "row")} so far: ${growingPath(options.out)}`));
    }
  }
  if (sums.rows > 0) return printSummary(terminal, { sums, options, loaded });
  const attempts = counted(sums.attempts, "attempt");
  const reason = `none of ${attempts} can be kept (${sums.reasons})${failureText(sums)}`;
  terminal.error(printable(indented(`svc: Cannot write ${options.out}: ${reason}`)));
  context.setExitCode(EXIT.failed);
}

interface Collecting {
  loaded: LoadedConfig;
  options: CollectCommandOptions;
  context: CliContext;
  signal: AbortSignal;
  activity: ActivityFeed;
  /** Prints a notice. */
  tell(text: string): void;
}

/** Adds the rows of all scenarios to the file, and writes the report. */
async function collectInto(
  file: GrowingFile,
  { loaded, options, context, signal, activity, tell }: Collecting,
): Promise<Collected> {
  const { k, keep = DEFAULT_KEEP, pairs, minReward = null, minGap = 0, limit = null, report } = options;
  const rows = pairs ? "pairs" : "traces";
  const collector = new TraceCollector({ rows, keep, min_reward: minReward, min_gap: minGap });
  const sums = new Collected();
  // No attempt uses held-out data.
  const { evaluation: _, ...config } = loaded.config;
  const groups = context.collect({
    ...{ loaded: { ...loaded, config }, api: options.api === true, k, limit, signal },
    ended: (progress) => activity.show({ phase: "collection", ...progress, kept: sums.rows }),
    warn: (warning) => tell(warningText(warning)),
    tell,
  });
  for await (const { scenario, group, trainsSampled } of groups) {
    const found = collector.take(group, scenario);
    await file.add(found.rows.map(({ row }) => JSON.stringify(row)));
    sums.take(scenario.id, found.report, found.lost);
    sums.failure ??= firstFailure([group]);
    if (!trainsSampled) continue;
    for (const { member, row } of found.rows) {
      if ("messages" in row && !trainsSampled(member, row)) sums.rewritten++;
    }
  }
  if (report !== undefined) await writeFileAtomic(report, `${jsonText(sums.reports)}\n`);
  return sums;
}

function failureText({ failure }: Collected): string {
  return failure === null ? "" : `; first failure, of the ${failure.boundary}: ${failure.message}`;
}

function printSummary(
  terminal: Terminal,
  { sums, options, loaded }: { sums: Collected; options: CollectCommandOptions; loaded: LoadedConfig },
): void {
  const line = (text: string) => terminal.line(printable(indented(text)));
  const reports = Object.entries(sums.reports);
  line(`pass rate ${formatRate(passRate(Object.values(sums.reports)))}`);
  const covered = reports.filter(([, { kept }]) => kept > 0).length;
  const noun = options.pairs ? "pair" : "trace";
  line(`${counted(sums.rows, noun)} of ${covered} of ${counted(reports.length, "scenario")}: ${options.out}`);
  if (sums.reasons !== "") line(`not kept: ${sums.reasons}${failureText(sums)}`);
  if (sums.rewritten > 0) {
    line(
      `${sums.rewritten} of the traces have calls that the template writes otherwise than the policy did; sft learns ` +
        "the template's form",
    );
  }
  const { template_variables } = loaded.config.agent!;
  if (Object.keys(template_variables).length > 0 && !options.pairs) {
    line(`train on them with the same variables: [sft] template_variables = ${jsonText(template_variables)}`);
  }
}

/** A parser for a number of at least `min`. */
function numberFrom(min: number): (text: string) => number {
  return (text) => {
    const value = text.trim() === "" ? NaN : Number(text);
    if (Number.isFinite(value) && value >= min) return value;
    throw new InvalidArgumentError(`It must be: number${min === -Infinity ? "" : `, at least ${min}`}.`);
  };
}

/** Adds the command. */
export function addCollectCommand(program: Command, context: CliContext): void {
  const attempts = numberFor("evaluation.samples_per_scenario");
  program.command("collect").description(
    "write successful attempts at a configuration's scenarios as training data",
  )
    .argument("<config>", "run configuration (TOML) with [agent]").addArgument(overridesArgument())
    .requiredOption("--out <file>", "where the rows are written, one JSON object a line")
    .option("--k <n>", "attempts at each scenario", attempts, DEFAULT_K)
    .option("--keep <n>", `the most traces of a scenario (default: ${DEFAULT_KEEP})`, attempts)
    .option("--report <file>", "also write each scenario's pass rate, as JSON")
    .option("--pairs", 'write each scenario\'s best trace against its worst, for algorithm = "preference"')
    .option("--api", "let the hosted model of [agent.collect_api] make the attempts")
    .option("--model <file>", "the model that makes the attempts, in place of model.path")
    .option(
      "--min-reward <n>",
      "the least reward of a kept trace; without it any above 0",
      numberFrom(-Infinity),
    )
    .option("--limit <n>", "only the first scenarios", numberFor("evaluation.max_examples"))
    .option("--seed <n>", "seed of the samples, in place of run.seed", numberFor("run.seed"))
    .option("--min-gap <n>", "the least difference of the rewards of a pair", numberFrom(0))
    .option("--force", "replace an earlier collection")
    .action((path: string, overrides: string[], options: CollectCommandOptions) =>
      collect(path, overrides, { options, context })
    );
}
