/** What the commands get from the entry file, so that tests can give something else. */

import type { Clock } from "../core/clock.ts";
import type { Terminal } from "./terminal.ts";

export interface CliContext {
  terminal: Terminal;
  clock: Clock;
  /** The module that a run's workers are started from: the program's own entry. */
  entry: string;
  /** Starts `svc-server`; resolves when it has ended. */
  startServer(path: string): Promise<void>;
  /** How the command ended when it neither threw nor succeeded. */
  setExitCode(code: number): void;
}
