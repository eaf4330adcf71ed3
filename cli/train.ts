/** `svc train`: a run without a server. */

import type { Command } from "commander";
import { loadRunConfig } from "../config/load.ts";
import { ServiceError } from "../core/errors.ts";
import { jsonText } from "../core/text.ts";
import type { EndEvent, RunEvent } from "../runs/event.ts";
import type { CliContext, LiveRun, StartRunOptions } from "./context.ts";
import { EXIT, type ExitCode } from "./exit_codes.ts";
import { ProgressPrinter } from "./progress.ts";
import type { Terminal } from "./terminal.ts";

interface TrainOptions {
  resume?: true;
  fork?: string;
  force?: true;
  json?: true;
  control?: true;
}

/** How often the line of an interactive terminal shows that time passes. */
const TICK_MS = 1000;

function startMode({ resume, fork, force }: TrainOptions): Pick<StartRunOptions, "mode" | "checkpoint"> {
  if (resume && fork !== undefined) {
    throw new ServiceError("config_invalid", "Cannot train: --resume and --fork exclude each other");
  }
  if (resume && force) {
    throw new ServiceError(
      "config_invalid",
      "Cannot train: --resume goes on with what --force would replace; give one of them",
    );
  }
  return { mode: resume ? "resume" : fork === undefined ? "new" : "fork", checkpoint: fork ?? null };
}

/** Prints every event as it comes; the last one tells how the run ended. */
async function follow(
  run: LiveRun,
  { terminal, clock }: CliContext,
  json: boolean,
): Promise<EndEvent | null> {
  const printer = new ProgressPrinter(terminal, clock);
  const show = (event: RunEvent) => json ? terminal.line(jsonText(event)) : printer.handle(event);
  const timer = json || !terminal.interactive ? undefined : setInterval(() => printer.tick(), TICK_MS);
  let end: EndEvent | null = null;
  try {
    for await (const event of run.events) {
      if (event.kind === "end") end = event;
      show(event);
    }
  } finally {
    clearInterval(timer);
    printer.close();
  }
  return end;
}

/** Standard output belongs to the control pipe's answers: everything else goes to standard error. */
function besideControl(terminal: Terminal): Terminal {
  const { error, columns } = terminal;
  return {
    line: error,
    error,
    write: (text) => error(text.trimEnd()),
    interactive: false,
    color: false,
    columns,
  };
}

/** What the state in which the process leaves its run means to whoever started it. */
function exitCode(end: EndEvent | null, interrupts: number): ExitCode {
  const state = end?.state;
  if (state === "completed" || state === "paused" || state === "cancelled") {
    return interrupts > 0 && state !== "completed" ? EXIT.interrupted : EXIT.done;
  }
  return state === "interrupted" ? EXIT.interrupted : EXIT.failed;
}

async function train(path: string, options: TrainOptions, given: CliContext): Promise<void> {
  const control = options.control === true;
  const context = control ? { ...given, terminal: besideControl(given.terminal) } : given;
  const start = startMode(options);
  const loaded = await loadRunConfig(path);
  let run: LiveRun | null = null;
  let interrupts = 0;
  const release = context.onInterrupt(() => {
    interrupts++;
    // Before the run has begun there is nothing to finish.
    if (interrupts > 1 || !run) return context.exit(EXIT.interrupted);
    context.terminal.error("svc: finishing the update; Ctrl-C again leaves at once");
    run.stop();
  });
  try {
    run = await context.startRun({ loaded, ...start, force: options.force === true, control });
    const end = await follow(run, context, options.json === true);
    context.setExitCode(exitCode(end, interrupts));
  } finally {
    release();
  }
}

/** Adds the command. */
export function addTrainCommand(program: Command, context: CliContext): void {
  program.command("train").description("train as a configuration says")
    .argument("<config>", "run configuration (TOML)")
    .option("--resume", "go on from the newest checkpoint")
    .option("--fork <checkpoint>", "begin with the state of a checkpoint")
    .option("--force", "replace what an earlier run left")
    .option("--json", "print the events as JSON lines")
    .option("--control", "obey commands on standard input (JSON lines) and answer them on standard output")
    .action((path: string, options: TrainOptions) => train(path, options, context));
}
