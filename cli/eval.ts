/** `svc eval`: evaluates a model on held-out data. */

import { type Command, InvalidArgumentError } from "commander";
import { resolve } from "node:path";
import { type LoadedConfig, loadRunConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { whyNotWritable, writeFileAtomic } from "../core/files.ts";
import { jsonText, printable } from "../core/text.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import { algorithmOf } from "../runs/algorithms/registry.ts";
import { type Place, refuseOutput } from "../runs/directory/places.ts";
import { beginsWith } from "../runs/directory/foreign_files.ts";
import { failedText, formatRate, rowsText, warningText } from "../runs/record/event_text.ts";
import { OBJECTIVES } from "../runs/record/objective.ts";
import type { CliContext } from "./context.ts";
import { interruptible, withStatusLine } from "./interruptible.ts";
import { numberFor, overridesArgument } from "./options.ts";
import { shortName } from "./progress.ts";
import type { Terminal } from "./terminal.ts";
import { printTranscript } from "./transcript.ts";

interface EvalOptions {
  adapter?: string;
  samples?: number;
  temperature?: number;
  limit?: number;
  seed?: number;
  show?: number;
  json?: true;
  out?: string;
}

/** The configuration with the command line's numbers in `[evaluation]`. */
function withOptions(loaded: LoadedConfig, options: EvalOptions): LoadedConfig {
  const { evaluation } = loaded.config;
  if (!evaluation) {
    throw new ServiceError(
      "config_invalid",
      `Cannot evaluate: ${loaded.path} has no [evaluation]; name held-out data in [evaluation] data`,
    );
  }
  const { algorithm } = loaded.config.run;
  const { samples, temperature, limit, seed } = options;
  const has_attempts = OBJECTIVES[algorithmOf(loaded.config).objective].is_rate;
  const refuse = (doing: string) => {
    const message = `Cannot ${doing}: ${algorithm} scores held-out rows, without attempts`;
    throw new ServiceError("config_invalid", message);
  };
  if (!has_attempts && options.show !== undefined) refuse("show conversations");
  for (const [name, value] of Object.entries({ samples, temperature, seed })) {
    if (!has_attempts && value !== undefined) refuse(`use --${name}`);
  }
  const numbers = {
    ...(samples === undefined ? {} : { samples_per_scenario: samples }),
    ...(temperature === undefined ? {} : { temperature }),
    ...(limit === undefined ? {} : { max_examples: limit }),
    ...(seed === undefined ? {} : { seed }),
  };
  return { ...loaded, config: { ...loaded.config, evaluation: { ...evaluation, ...numbers } } };
}

function printResult(terminal: Terminal, result: EvaluationResult): void {
  for (const transcript of result.transcripts ?? []) printTranscript(terminal, transcript);
  if (result.pass_rate) {
    terminal.line(`pass rate ${formatRate(result.pass_rate)}`);
    const passed = result.scenarios.filter(({ passes }) => passes > 0).length;
    terminal.line(`${passed} of ${result.scenarios.length} scenarios were solved at least once`);
    const failed = failedText(result);
    if (failed !== null) {
      terminal.line(
        printable(`${failed}, first of the ${result.failure?.boundary}: ${result.failure?.message}`),
      );
    }
  }
  if (result.reward_mean !== null) terminal.line(`mean reward ${result.reward_mean.toFixed(4)}`);
  if (result.loss !== null) {
    const rows = result.rows === null ? "" : ` (${rowsText(result.rows)})`;
    terminal.line(`loss ${result.loss.toFixed(6)}${rows}`);
  }
  if (result.perplexity !== null) terminal.line(`perplexity ${result.perplexity.toFixed(4)}`);
  for (const [name, value] of Object.entries(result.values ?? {})) {
    terminal.line(`${shortName(name)} ${value.toFixed(4)}`);
  }
}

const unwritable = (path: string, reason: string) =>
  new ServiceError("config_invalid", `Cannot write --out ${path}: ${reason}`, { path });

/** The start of a report. */
const REPORT = '{"model":';

/** Only an earlier report or an empty file may be replaced. */
async function refuseOccupied(path: string): Promise<void> {
  const info = await Deno.lstat(path).catch(() => null);
  if (info?.isSymlink) throw unwritable(path, "it is a link; name a file");
  if (await beginsWith(path, REPORT)) return;
  throw unwritable(path, "it exists and holds no report of an evaluation; name another file");
}

/** Checks the output path first: it must be writable and must not be an input of the evaluation. */
async function checkOut(path: string, loaded: LoadedConfig, adapter: string | undefined): Promise<void> {
  const read: Place[] = adapter === undefined
    ? []
    : [{ key: "--adapter", path: resolve(adapter), kind: "input_file" }];
  await refuseOutput({ key: "--out", path: resolve(path), kind: "file" }, loaded, read);
  const reason = await whyNotWritable(path, "file");
  if (reason !== null) throw unwritable(path, reason);
  await refuseOccupied(path);
}

/** Parses a number of attempts. */
function attempts(text: string): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError("It must be: integer, at least 1.");
}

async function evaluate(
  path: string,
  overrides: string[],
  { options, context }: { options: EvalOptions; context: CliContext },
): Promise<void> {
  const { terminal } = context;
  const loaded = withOptions(await loadRunConfig(path, { overrides }), options);
  if (options.out !== undefined) await checkOut(options.out, loaded, options.adapter);
  const adapter = options.adapter ?? null, transcripts = options.show ?? 0;
  const result = await interruptible(
    "Cannot finish the evaluation: interrupted",
    context,
    (signal) =>
      withStatusLine(
        !options.json && terminal.interactive,
        context,
        (activity, tell) =>
          context.evaluate({
            ...{ loaded, adapter, signal, activity, transcripts, tell },
            warn: (warning) => tell(warningText(warning)),
          }),
      ),
  );
  const report = jsonText({ model: loaded.config.model.path, adapter, ...result });
  if (options.json) terminal.line(report);
  else printResult(terminal, result);
  if (options.out === undefined) return;
  try {
    await refuseOccupied(options.out);
    await writeFileAtomic(options.out, `${report}\n`);
  } catch (error) {
    // If the disk filled up meanwhile, do not lose the result of hours.
    if (!options.json) terminal.line(report);
    throw error;
  }
}

/** Adds the command. */
export function addEvalCommand(program: Command, context: CliContext): void {
  program.command("eval").description("evaluate a model on a configuration's held-out data")
    .argument("<config>", "run configuration (TOML) with [evaluation]").addArgument(overridesArgument())
    .option("--adapter <file>", "the adapter to evaluate; without it the model as training would start")
    .option("--samples <n>", "attempts at each scenario", numberFor("evaluation.samples_per_scenario"))
    .option("--temperature <t>", "sampling temperature; 0 is greedy", numberFor("evaluation.temperature"))
    .option("--limit <n>", "only the first scenarios", numberFor("evaluation.max_examples"))
    .option("--seed <n>", "seed of the samples", numberFor("evaluation.seed"))
    .option("--show <n>", "also print the conversations of n attempts, failed ones first", attempts)
    .option("--json", "print the result with every scenario as JSON")
    .option("--out <file>", "also write it to a file")
    .action((path: string, overrides: string[], options: EvalOptions) =>
      evaluate(path, overrides, { options, context })
    );
}
