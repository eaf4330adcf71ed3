/** `svc config schema`. */

import type { Command } from "commander";
import { configJsonSchema } from "../config/describe.ts";
import type { CliContext } from "./context.ts";

/** Adds the command. */
export function addConfigCommand(program: Command, { terminal }: CliContext): void {
  const config = program.command("config").description("about the run configuration");
  config.command("schema").description("print the configuration file's JSON Schema (2020-12)")
    .action(() => terminal.line(JSON.stringify(configJsonSchema(), null, 2)));
}
