/** Where the tools of an attempt act: a workspace with files, and programs that run in it. */

import type { WorkspaceFiles } from "./workspace_files.ts";

/** A program to run in a sandbox. */
export interface SandboxCommand {
  /** The program and its arguments, without a shell. It starts in the workspace. */
  argv: readonly string[];
  /** Its standard input, which ends after this text. Default: empty. */
  stdin?: string;
  /** Bytes of stdout and of stderr to keep; later output is read and discarded. Default: the sandbox's own. */
  max_output_bytes?: number;
  /** Bytes of the end of each output to keep besides, when some output is discarded. Default: none. */
  tail_bytes?: number;
  /**
   * HOME is an empty folder outside of the workspace, and Python reads no packages of the user: what an attempt left in
   * its own HOME, the workspace, does not act on the program by itself.
   */
  own_home?: boolean;
}

/** Variables of a program with `own_home`. */
export const OWN_HOME_ENV = { PYTHONNOUSERSITE: "1" } as const;

/** How a program ended. */
export interface CommandResult {
  /** Null when it was killed. */
  code: number | null;
  /** `timeout`: by the sandbox's limit of a command. */
  ended: "exited" | "killed" | "timeout" | "cancelled";
  stdout: string;
  stderr: string;
  /** Some output was discarded. */
  capped: boolean;
  /**
   * When output was discarded and the command asked for tails: the end of each output that was capped, else "". Absent
   * also from a sandbox that keeps none.
   */
  tails?: { stdout: string; stderr: string };
  /** The sandbox's memory limit killed processes meanwhile. Absent: it did not, or that is not known. */
  out_of_memory?: true;
}

/** Whether a command was executed: shells have these statuses for one that is not. */
export const wasStarted = ({ code }: Pick<CommandResult, "code">): boolean => code !== 126 && code !== 127;

/** The sandbox of one attempt. */
export interface Sandbox extends WorkspaceFiles {
  /**
   * Runs a program to its end, under the sandbox's limit of a command. What it started and left is ended too. A program
   * that cannot be executed is a result with status 126 or 127, or an error.
   *
   * @throws {ServiceError} `environment_failed` when it cannot be started, or the sandbox fails; with `details.no_program`
   * when there is no such program.
   */
  run(command: SandboxCommand, signal: AbortSignal): Promise<CommandResult>;
}
