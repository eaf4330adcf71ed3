#!/usr/bin/env -S deno run -A
/** `svc-server`: the HTTP API. Its device probe, its processes of jobs and its runs are `cli.ts`. */

import { endProcess } from "./cli/end_process.ts";
import { prepareGpuEnvironment } from "./cli/environment.ts";
import { runServerProgram } from "./cli/server_program.ts";
import { processTerminal } from "./cli/terminal.ts";

prepareGpuEnvironment();
const ENTRY_URL = new URL("cli.ts", import.meta.url).href;
endProcess(
  await runServerProgram(Deno.args, { entry_url: ENTRY_URL, terminal: processTerminal("svc-server") }),
);
