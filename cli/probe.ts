/** `svc probe`: the process with which a server asks a run that has none. */

import type { Command } from "commander";
import { loadRunConfig } from "../config/check/load.ts";
import { errorRecord } from "../core/errors.ts";
import type { ControlMessage } from "../runs/process/control.ts";
import type { CliContext } from "./context.ts";

/** Adds the command, which only a server starts. */
export function addProbeCommand(program: Command, context: CliContext): void {
  program.command("probe", { hidden: true }).description("answer requests about a run on the control pipe")
    .argument("<config>", "run configuration (TOML)")
    .action(async (path: string) => {
      try {
        await context.probe(await loadRunConfig(path, { overrides: [] }));
      } catch (error) {
        const fatal: ControlMessage = { fatal: errorRecord(error) };
        context.terminal.line(JSON.stringify(fatal));
        throw error;
      }
    });
}
