/** The dependencies of the commands, which tests replace. */

import type { TraceRow } from "../agent/results/collect.ts";
import type { Group } from "../agent/trajectory/group.ts";
import type { Trajectory } from "../agent/trajectory/trajectory.ts";
import type { LoadedConfig } from "../config/check/load.ts";
import type { Clock } from "../core/clock.ts";
import type { Scenario } from "../data/scenario.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import type { RunWarning } from "../runs/record/warning.ts";
import type { JudgingModel } from "./judge_model.ts";
import type { Activity, ActivityFeed } from "../runs/record/activity.ts";
import type { RunEvent } from "../runs/record/event.ts";
import type { Terminal } from "./terminal.ts";

export interface CliStartOptions {
  loaded: LoadedConfig;
  /** `resume`: continue from the newest complete checkpoint. `fork`: start with the state of a checkpoint. */
  mode: "new" | "resume" | "fork";
  /** The folder of the checkpoint to fork. */
  checkpoint: string | null;
  /** Replace the output of an earlier run. */
  force: boolean;
  /** The folder of a run whose recordings are replayed. Absent: none. */
  replay?: string;
  /** Read commands from standard input, and answer on standard output. */
  control: boolean;
  /** The id of the run that a server has prepared. Absent: none. */
  adopt?: string;
  /** The learning rate that a command set before the run starts or continues. Absent: none. */
  learning_rate?: number;
}

/** A started run. */
export interface RunHandle {
  /** All events of the run; the last is an `end`. */
  events: AsyncIterable<RunEvent>;
  /** The activity between events, for one reader. */
  activity: AsyncIterable<Activity>;
  /** Finishes the update, writes a checkpoint if configured, and ends. */
  stop(): void;
}

export interface EvaluateOptions {
  /** With the command line's numbers in `[evaluation]`. */
  loaded: LoadedConfig;
  /** An adapter file; null: the model as training would start with it. */
  adapter: string | null;
  /** Aborts the evaluation, whose files are then removed. */
  signal: AbortSignal;
  /** Receives the evaluation's progress. */
  activity: ActivityFeed;
  /** The number of conversations to return. */
  transcripts: number;
  /** Receives warnings about the configuration and the data, before the first attempt. */
  warn(warning: RunWarning): void;
  /** Receives the messages of environments, tool hosts and graders' programs, as they come. */
  tell(message: string): void;
}

export interface CollectOptions {
  /** With the command line's model and seed. */
  loaded: LoadedConfig;
  /** Whether the hosted model of `[agent.collect_api]` makes the attempts. */
  api: boolean;
  /** Attempts at each scenario. */
  k: number;
  /** Only the first scenarios; null: all. */
  limit: number | null;
  /** Aborts the collection. */
  signal: AbortSignal;
  /** Called whenever further attempts have ended. */
  ended(attempts: { done: number; total: number }): void;
  /** Receives warnings about the configuration, before the first attempt. */
  warn(warning: RunWarning): void;
  /** Receives the messages of environments, tool hosts and graders' programs, as they come. */
  tell(message: string): void;
}

/** The graded attempts at one scenario. */
export interface CollectedGroup {
  scenario: Scenario;
  group: Group;
  /** Whether training on a conversation of the group trains the tokens that were sampled; null: no tokens are known. */
  trainsSampled: ((member: Trajectory, row: TraceRow) => boolean) | null;
}

export interface CliContext {
  terminal: Terminal;
  clock: Clock;
  /** The shell command of this program, such as `./dev svc`, for commands that it prints. */
  command_name: string;
  /** @throws {ServiceError} Problems of the data, the model or the machine before the first event. */
  startRun(options: CliStartOptions): Promise<RunHandle>;
  /** Evaluates the held-out data. @throws {ServiceError} */
  evaluate(options: EvaluateOptions): Promise<EvaluationResult>;
  /** Attempts the scenarios in order, without a run. @throws {ServiceError} */
  collect(options: CollectOptions): AsyncIterable<CollectedGroup>;
  /** Loads the base model of a configuration, for a judge of type local. @throws {ServiceError} */
  openJudgeModel(loaded: LoadedConfig): Promise<JudgingModel>;
  /** Answers requests about a run without a process, or measures one, on standard input and output. */
  answer(what: "probe" | "calibrate", loaded: LoadedConfig): Promise<void>;
  /** Runs `svc-server` with arguments; returns its exit status when it has ended. */
  runServer(args: readonly string[]): Promise<number>;
  /** Calls back at every Ctrl-C until the returned function is called. */
  onInterrupt(callback: () => void): () => void;
  /** Ends the process at once. */
  exit(code: number): void;
  /** Sets the exit status of a command that did not throw but did not succeed either. */
  setExitCode(code: number): void;
}
