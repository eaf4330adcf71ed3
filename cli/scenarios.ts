/** `svc scenarios`: scenarios that a model writes, and how those of a run passed. */

import type { Command } from "commander";
import { resolve } from "node:path";
import { configuredWorld } from "../agent/configured.ts";
import { type LoadedConfig, loadRunConfig } from "../config/check/load.ts";
import { resolvePaths } from "../config/check/derive.ts";
import type { RunConfig } from "../config/schema.ts";
import { GRADERS } from "../config/sections/agent.ts";
import type { ChatMessage } from "../core/chat.ts";
import { systemClock } from "../core/clock.ts";
import { errorText, ServiceError } from "../core/errors.ts";
import { isPresent, whyNotWritable, writeFileAtomic } from "../core/files.ts";
import { indented, printable } from "../core/text.ts";
import { parseScenario } from "../data/scenario.ts";
import {
  ANSWER_SCHEMA,
  type Generated,
  generateTasks,
  generationMessages,
  scenarioLines,
  TASKS_PER_REQUEST,
} from "../data/scenario_generation.ts";
import { beginsWith } from "../runs/directory/foreign_files.ts";
import { refuseOutput } from "../runs/directory/places.ts";
import { counted } from "../runs/record/event_text.ts";
import type { CliContext } from "./context.ts";
import { EXIT } from "./exit_codes.ts";
import { hostedModel } from "./hosted_model.ts";
import { interruptible } from "./interruptible.ts";
import { numberFor, overridesArgument } from "./options.ts";
import { addHistoryCommand } from "./scenario_history.ts";
import { printNotice, styled, type Terminal } from "./terminal.ts";
import { listTools } from "./tools.ts";

interface GenerateOptions {
  out?: string;
  count?: number;
  seed?: number;
  dryRun?: true;
  force?: true;
}

const DOING = "generate scenarios";

const refusal = (reason: string) => new ServiceError("config_invalid", `Cannot ${DOING}: ${reason}`);

/** The beginning of a scenario file that this command wrote. */
const BEGINNING = '{"id":"generated-';

/**
 * Where the scenarios are written: `--out`, or `[agent].scenarios` when that does not exist.
 *
 * @throws {ServiceError} `already_exists`, `config_invalid`.
 */
async function outputOf(loaded: LoadedConfig, { out, force }: GenerateOptions): Promise<string> {
  const scenarios = resolvePaths(loaded.config, resolve(loaded.path)).agent!.scenarios;
  const path = resolve(out ?? scenarios);
  const is_there = await isPresent(path);
  if (is_there && out === undefined) {
    const message = `Cannot write ${path}: agent.scenarios exists; name another file with --out`;
    throw new ServiceError("already_exists", message, { path });
  }
  // A new file may well become that of the configuration.
  if (is_there || path !== scenarios) await refuseOutput({ key: "--out", path, kind: "file" }, loaded, []);
  const reason = await whyNotWritable(path, "file");
  if (reason !== null) throw new ServiceError("config_invalid", `Cannot write ${path}: ${reason}`, { path });
  if (!is_there) return path;
  const refuse = (reason: string) =>
    new ServiceError("already_exists", `Cannot write ${path}: ${reason}`, { path });
  if ((await Deno.lstat(path)).isSymlink) throw refuse("it is a link; name a file");
  if (!force) throw refuse("it exists; --force replaces it, or name another file");
  if (await beginsWith(path, BEGINNING)) return path;
  throw refuse("it exists and was not generated; name another file");
}

async function loadedFor(path: string, overrides: string[], options: GenerateOptions): Promise<LoadedConfig> {
  const { count, seed } = options;
  const loaded = await loadRunConfig(path, {
    // The scenarios need not exist yet.
    check_paths: false,
    overrides: [
      ...overrides,
      ...(count === undefined ? [] : [`agent.scenario_generation.count=${count}`]),
      ...(seed === undefined ? [] : [`run.seed=${seed}`]),
    ],
  });
  if (!loaded.config.agent) throw refusal(`${path} has no [agent]`);
  if (!loaded.config.agent.scenario_generation) {
    throw refusal(`${path} has no [agent.scenario_generation]; name a model there`);
  }
  return loaded;
}

async function generate(
  path: string,
  overrides: string[],
  { options, context }: { options: GenerateOptions; context: CliContext },
): Promise<void> {
  const { terminal, clock } = context;
  const loaded = await loadedFor(path, overrides, options), { run: { seed }, agent } = loaded.config;
  const { count } = agent!.scenario_generation!;
  const toolsets = await listTools(loaded.config, (message) => printNotice(terminal, message));
  const { tools } = toolsets.find((toolset) => toolset.default) ?? toolsets[0] ?? { tools: [] };
  if (tools.length === 0) throw refusal(`${path} exposes no tools, and tasks are written for tools`);
  if (!await canGrade(loaded.config)) {
    const advice = `add ${
      GRADERS.map((name) => `[agent.${name}]`).join(" or ")
    }, or give each of them metadata.env.verify`;
    printNotice(terminal, `nothing in this configuration can grade the scenarios; ${advice}`);
  }
  if (options.dryRun) return printMessages(terminal, generationMessages(tools, firstBatch(count)));
  const out = await outputOf(loaded, options);
  const model = hostedModel(agent!, "scenario_generation", { seed, clock, doing: DOING });
  await interruptible("the generation was interrupted", context, async (signal) => {
    const response_schema = { name: "scenarios", schema: ANSWER_SCHEMA };
    const generated = await generateTasks({ tools, count, seed }, async (messages) => {
      const { content } = await model.ask({ messages, response_schema }, signal);
      return content ?? "";
    });
    const { tasks } = generated;
    if (tasks.length > 0) {
      await writeFileAtomic(
        out,
        scenarioLines(tasks).map((line) => `${line}\n`).join(""),
      );
    }
    report(context, { generated, count, out, signal });
  });
}

/** Whether a written scenario may get a grade as it is. */
async function canGrade(config: RunConfig): Promise<boolean> {
  const world = configuredWorld(config, { clock: systemClock })!;
  try {
    const [line] = scenarioLines([{ task: "any", difficulty: 1 }]);
    const scenario = parseScenario(JSON.parse(line!), { path: "", line: 1 });
    return world.graders.some((grader) => grader.coverage(scenario) !== "none");
  } finally {
    await world.close();
  }
}

/** The levels of the first request. */
function firstBatch(count: number): number[] {
  const n = Math.min(count, TASKS_PER_REQUEST);
  return [0, 1, 2, 3, 4].map((i) => Math.floor((n + 4 - i) / 5));
}

function report(
  { terminal, setExitCode }: CliContext,
  { generated, count, out, signal }: {
    generated: Generated;
    count: number;
    out: string;
    signal: AbortSignal;
  },
): void {
  const { tasks, requests, duplicates, broken, problem, error } = generated;
  const levels = [1, 2, 3, 4, 5].map((level) =>
    tasks.filter(({ difficulty }) => difficulty === level).length
  );
  if (tasks.length > 0) {
    terminal.line(
      printable(`${counted(tasks.length, "scenario")} of difficulty 1 to 5 (${levels.join(", ")}): ${out}`),
    );
  }
  terminal.line(
    `${counted(requests, "request")}, ${counted(duplicates, "near-duplicate")}, ${
      counted(broken, "broken answer")
    }`,
  );
  if (tasks.length >= count && error === null) return;
  const reason = error !== null
    ? errorText(error)
    : problem !== null
    ? `${counted(broken, "answer")} could not be used, the last one because ${problem}; ask another model`
    : "the model wrote no more different tasks; raise the spread of the tools, or ask another model";
  terminal.error(printable(indented(`svc: ${tasks.length} of ${counted(count, "scenario")}: ${reason}`)));
  setExitCode(signal.aborted ? EXIT.interrupted : EXIT.failed);
}

function printMessages(terminal: Terminal, messages: readonly ChatMessage[]): void {
  for (const { role, content } of messages) {
    terminal.line(styled(terminal, "bold", `${role}:`));
    terminal.line(content!.split("\n").map(printable).join("\n"));
  }
}

/** Adds the command. */
export function addScenariosCommand(program: Command, context: CliContext): void {
  const scenarios = program.command("scenarios").description(
    "about the scenarios of a configuration or a run",
  );
  scenarios.command("generate").description("let a model write scenarios for the tools of a configuration")
    .argument("<config>", "run configuration (TOML) with [agent.scenario_generation]")
    .addArgument(overridesArgument())
    .option("--out <file>", "where they are written; without it agent.scenarios, when that does not exist")
    .option("--count <n>", "scenarios to write", numberFor("agent.scenario_generation.count"))
    .option("--seed <n>", "seed of their order, in place of run.seed", numberFor("run.seed"))
    .option("--dry-run", "print the first request and send nothing")
    .option("--force", "replace scenarios that were generated before")
    .action((path: string, overrides: string[], options: GenerateOptions) =>
      generate(path, overrides, { options, context })
    );
  addHistoryCommand(scenarios, context);
}
