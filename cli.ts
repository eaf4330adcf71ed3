#!/usr/bin/env -S deno run -A
/**
 * `svc`: the command line. The same file is the entry of a run's workers, named `engine` and `agent`, so that one
 * file works alike from source, bundled and compiled.
 */

import { prepareGpuEnvironment } from "./cli/environment.ts";

async function main(): Promise<number> {
  const { runCli } = await import("./cli/program.ts");
  const { processTerminal } = await import("./cli/terminal.ts");
  const { systemClock } = await import("./core/clock.ts");
  return await runCli(Deno.args, {
    terminal: processTerminal(),
    clock: systemClock,
    entry: import.meta.url,
    startServer: async () => await Promise.reject(new Error("later")),
  });
}

if (import.meta.main) {
  prepareGpuEnvironment();
  Deno.exit(await main());
}
