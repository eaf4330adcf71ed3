/** What the commands get from the entry file, so that tests can give something else. */

import type { LoadedConfig } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import type { EvaluationResult } from "../runs/algorithms/algorithm.ts";
import type { RunWarning } from "../runs/record/warning.ts";
import type { Activity, ActivityFeed } from "../runs/record/activity.ts";
import type { RunEvent } from "../runs/record/event.ts";
import type { Terminal } from "./terminal.ts";

export interface StartRunOptions {
  loaded: LoadedConfig;
  /** `resume`: go on from the newest whole checkpoint. `fork`: begin with the state of a checkpoint. */
  mode: "new" | "resume" | "fork";
  /** The checkpoint's folder, of a fork. */
  checkpoint: string | null;
  /** Replace what an earlier run left. */
  force: boolean;
  /** Obey commands on standard input, and answer on standard output. */
  control: boolean;
}

/** A run under way. */
export interface RunHandle {
  /** Every event from the run's first on; the last is an `end`. */
  events: AsyncIterable<RunEvent>;
  /** What happens between the events, for one reader. */
  activity: AsyncIterable<Activity>;
  /** Finishes the update, writes a checkpoint when one is configured, and ends. */
  stop(): void;
}

export interface EvaluateOptions {
  /** With the command line's numbers in `[evaluation]`. */
  loaded: LoadedConfig;
  /** An adapter file; null: the model as the configuration would begin to train it. */
  adapter: string | null;
  /** Aborts when the evaluation is to be given up; what it made is then removed. */
  signal: AbortSignal;
  /** Where the evaluation shows how far it is. */
  activity: ActivityFeed;
  /** Attempts whose conversations are wanted. */
  transcripts: number;
  /** Takes what the configuration and the data make one think of, before anything is tried. */
  warn(warning: RunWarning): void;
}

export interface CliContext {
  terminal: Terminal;
  clock: Clock;
  /** What a shell would start this program by, such as `./dev svc`, in the commands that are printed. */
  command_name: string;
  /** @throws {ServiceError} What the data, the model or the machine refuse before the first event. */
  startRun(options: StartRunOptions): Promise<RunHandle>;
  /** Tries the held-out data. @throws {ServiceError} */
  evaluate(options: EvaluateOptions): Promise<EvaluationResult>;
  /** Starts `svc-server`, with its defaults without a path; resolves when it has ended. */
  startServer(path: string | null): Promise<void>;
  /** Calls back at every Ctrl-C until the returned function is called. */
  onInterrupt(callback: () => void): () => void;
  /** Leaves the process at once. */
  exit(code: number): void;
  /** How the command ended when it neither threw nor succeeded. */
  setExitCode(code: number): void;
}
