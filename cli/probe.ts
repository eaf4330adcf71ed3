/** `svc probe` and `svc calibrate`: the processes that a server asks about a run without a process, and about a plan. */

import type { Command } from "commander";
import { loadRunConfig } from "../config/check/load.ts";
import { errorRecord } from "../core/errors.ts";
import type { ControlMessage } from "../runs/process/control.ts";
import type { CliContext } from "./context.ts";

/** Adds the commands, which only a server starts: they answer on the control pipe. */
export function addProbeCommands(program: Command, context: CliContext): void {
  for (const name of ["probe", "calibrate"] as const) {
    program.command(name, { hidden: true }).argument("<config>", "run configuration (TOML)")
      .action(async (path: string) => {
        try {
          await context.answer(name, await loadRunConfig(path, { overrides: [] }));
        } catch (error) {
          const fatal: ControlMessage = { fatal: errorRecord(error) };
          context.terminal.line(JSON.stringify(fatal));
          throw error;
        }
      });
  }
}
