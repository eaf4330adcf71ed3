/** `svc train`: a run without a server. */

import type { Command } from "commander";
import { loadRunConfig } from "../config/load.ts";
import { ServiceError } from "../core/errors.ts";
import type { EndEvent, RunEvent } from "../runs/event.ts";
import type { CliContext, LiveRun, StartRunOptions } from "./context.ts";
import { EXIT } from "./exit_codes.ts";
import { ProgressPrinter } from "./progress.ts";

interface TrainOptions {
  resume?: true;
  fork?: string;
  force?: true;
  json?: true;
}

/** How often the line of an interactive terminal shows that time passes. */
const TICK_MS = 1000;

function startMode({ resume, fork }: TrainOptions): Pick<StartRunOptions, "mode" | "checkpoint"> {
  if (resume && fork !== undefined) {
    throw new ServiceError("config_invalid", "Cannot train: --resume and --fork exclude each other");
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
  const show = (event: RunEvent) => json ? terminal.line(JSON.stringify(event)) : printer.handle(event);
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

async function train(path: string, options: TrainOptions, context: CliContext): Promise<void> {
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
    run = await context.startRun({ loaded, ...start, force: options.force === true });
    const end = await follow(run, context, options.json === true);
    if (end?.state === "completed") return;
    context.setExitCode(end?.state !== "failed" && interrupts > 0 ? EXIT.interrupted : EXIT.failed);
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
    .action((path: string, options: TrainOptions) => train(path, options, context));
}
