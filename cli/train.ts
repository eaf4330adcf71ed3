/** `svc train`, without a server. */

import { type Command, Option } from "commander";
import { resolvePaths } from "../config/check/derive.ts";
import { loadRunConfig } from "../config/check/load.ts";
import { errorRecord, ServiceError } from "../core/errors.ts";
import { jsonText, printable } from "../core/text.ts";
import { suggestedCheckpoint } from "../runs/plan/warnings.ts";
import type { ControlMessage } from "../runs/process/control.ts";
import type { Activity } from "../runs/record/activity.ts";
import type { EndEvent, RunEvent } from "../runs/record/event.ts";
import type { CliContext, CliStartOptions, RunHandle } from "./context.ts";
import { interruptionText, type TrainCommand, viewText } from "./continuation.ts";
import { EXIT, type ExitCode } from "./exit_codes.ts";
import { overridesArgument } from "./options.ts";
import { ProgressPrinter, TICK_MS } from "./progress.ts";
import type { Terminal } from "./terminal.ts";

interface TrainOptions {
  resume?: true;
  fork?: string;
  force?: true;
  replay?: string;
  json?: true;
  control?: true;
  adopt?: string;
  learningRate?: string;
}

function startMode({ resume, fork, force }: TrainOptions): Pick<CliStartOptions, "mode" | "checkpoint"> {
  if (resume && fork !== undefined) {
    throw new ServiceError("config_invalid", "Cannot train: --resume and --fork exclude each other");
  }
  if (resume && force) {
    throw new ServiceError(
      "config_invalid",
      "Cannot train: --resume continues the run that --force would replace; give one of them",
    );
  }
  return { mode: resume ? "resume" : fork === undefined ? "new" : "fork", checkpoint: fork ?? null };
}

/** Prints every event; the last one says how the run ended. */
class Follower {
  readonly printer: ProgressPrinter;
  /** Whether the run has a checkpoint. */
  has_checkpoint = false;
  readonly #terminal: Terminal;
  readonly #json: boolean;
  readonly #is_fork: boolean;

  constructor({ terminal, clock }: CliContext, { json, fork }: TrainOptions) {
    this.#terminal = terminal;
    this.#json = json === true;
    this.#is_fork = fork !== undefined;
    this.printer = new ProgressPrinter(terminal, clock);
  }

  /** @param onActivity Receives what the run does between two events, where a server reads it. */
  async follow(run: RunHandle, onActivity: ((item: Activity) => void) | null): Promise<EndEvent | null> {
    const { printer } = this;
    const is_watched = !this.#json && this.#terminal.interactive;
    const timer = is_watched ? setInterval(() => printer.tick(), TICK_MS) : undefined;
    let end: EndEvent | null = null;
    try {
      // Not awaited: the events say when the run has ended.
      if (is_watched) forward(run, (item) => printer.show(item));
      else if (onActivity) forward(run, onActivity);
      for await (const event of run.events) {
        this.#take(event);
        if (event.kind === "end") end = event;
      }
    } finally {
      clearInterval(timer);
      printer.close();
    }
    return end;
  }

  #take(event: RunEvent): void {
    // A fork continues from a checkpoint of its parent.
    const goes_on = event.kind === "state" && event.checkpoint !== null && !this.#is_fork;
    if (event.kind === "checkpoint" || goes_on) this.has_checkpoint = true;
    if (this.#json) this.#terminal.line(jsonText(event));
    else this.printer.handle(event);
  }
}

async function forward({ activity }: RunHandle, onActivity: (item: Activity) => void): Promise<void> {
  for await (const item of activity) onActivity(item);
}

/** Standard output is for the control pipe's answers; everything else goes to standard error. */
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

/** The exit status for the state of an ended run. */
function exitCode(end: EndEvent | null, interrupts: number): ExitCode {
  const state = end?.state;
  if (state === "completed" || state === "paused" || state === "cancelled") {
    return interrupts > 0 && state !== "completed" ? EXIT.interrupted : EXIT.done;
  }
  return state === "interrupted" ? EXIT.interrupted : EXIT.failed;
}

async function train(
  path: string,
  overrides: string[],
  { options, given }: { options: TrainOptions; given: CliContext },
): Promise<void> {
  const control = options.control === true;
  const context = control ? { ...given, terminal: besideControl(given.terminal) } : given;
  const { terminal } = context;
  const start = startMode(options);
  const loaded = await loadRunConfig(path, { overrides });
  const { config } = loaded;
  const command: TrainCommand = {
    ...{
      name: context.command_name,
      path,
      overrides,
      fork: start.checkpoint,
      replay: options.replay ?? null,
    },
    missing_checkpoint: config.checkpoint ? null : suggestedCheckpoint(config),
  };
  const follower = new Follower(context, options);
  let run: RunHandle | null = null;
  let interrupts = 0;
  const release = context.onInterrupt(() => {
    interrupts++;
    // Before the run has started there is nothing to finish.
    if (!run) return context.exit(EXIT.interrupted);
    if (interrupts === 1) {
      follower.printer.note("svc: finishing the update or evaluation; Ctrl-C again stops at once");
      return run.stop();
    }
    follower.printer.close();
    if (!control) {
      const kept = follower.has_checkpoint ? "up_to_checkpoint" : null;
      terminal.error(printable(`svc: ${interruptionText(command, kept)}`));
    }
    context.exit(EXIT.interrupted);
  });
  try {
    const { adopt, learningRate, replay } = options;
    const adopted = {
      ...(replay !== undefined && { replay }),
      ...(adopt !== undefined && { adopt }),
      ...(learningRate !== undefined && { learning_rate: Number(learningRate) }),
    };
    run = await context.startRun({ loaded, ...start, force: options.force === true, control, ...adopted });
    const tell = (message: ControlMessage) => given.terminal.line(JSON.stringify(message));
    const end = await follower.follow(run, control ? (activity) => tell({ activity }) : null);
    if (end?.state === "failed") terminal.error(printable(`svc: ${end.detail ?? end.reason}`));
    if (end?.state === "interrupted" && !control) {
      const kept = !follower.has_checkpoint ? null : config.checkpoint ? "all" : "up_to_checkpoint";
      terminal.error(printable(`svc: ${interruptionText(command, kept)}`));
    }
    const { observe } = resolvePaths(config, loaded.path);
    if (end?.state === "completed" && observe && !options.json && !control) {
      terminal.line(printable(viewText(command, observe.directory)));
    }
    context.setExitCode(exitCode(end, interrupts));
  } finally {
    release();
  }
}

/** Adds the command. */
export function addTrainCommand(program: Command, context: CliContext): void {
  program.command("train").description("train with a configuration")
    .argument("<config>", "run configuration (TOML)").addArgument(overridesArgument())
    .option("--resume", "continue from the newest checkpoint")
    .option("--fork <checkpoint>", "start with the state of a checkpoint")
    .option("--force", "replace the output of an earlier run")
    .option(
      "--replay <run>",
      "take the answers of tools, environments and graders from a recorded run's folder",
    )
    .option("--json", "print the events as JSON lines")
    .option("--control", "read commands from standard input (JSON lines) and answer on standard output")
    .addOption(new Option("--adopt <run>", "start or resume the run that a server prepared").hideHelp())
    .addOption(new Option("--learning-rate <lr>", "the rate that a command set, with --adopt").hideHelp())
    .action(async (path: string, overrides: string[], options: TrainOptions) => {
      try {
        await train(path, overrides, { options, given: context });
      } catch (error) {
        const fatal: ControlMessage = { fatal: errorRecord(error) };
        if (options.control) context.terminal.line(JSON.stringify(fatal));
        throw error;
      }
    });
}
