#!/usr/bin/env -S deno run -A
/** `svc-server`: the HTTP API. The same file is the entry of its device probe and of its processes of jobs. */

import { answerProbe, isProbeWorker } from "./cli/device_probe.ts";
import { endProcess } from "./cli/end_process.ts";
import { prepareGpuEnvironment } from "./cli/environment.ts";
import { EXIT, exitCodeOf } from "./cli/exit_codes.ts";
import { isJobProcess, serveJobProcess } from "./cli/job_entry.ts";
import { serve } from "./cli/serve.ts";
import { processTerminal, type Terminal } from "./cli/terminal.ts";
import { readViewArguments, view } from "./cli/view.ts";
import { errorText } from "./core/errors.ts";
import { indented, printable } from "./core/text.ts";
import { VERSION } from "./core/version.ts";
import { openApiText } from "./server/routing/openapi.ts";
import { ROUTES } from "./server/route_table.ts";

const USAGE = `Usage: svc-server [server.toml]
       svc-server view <observe_dir> [--open] [--port <n>]
       svc-server openapi

Runs the HTTP API. Without a file it takes the defaults: http://127.0.0.1:8471, data in ./svc-data.
view shows the trajectories that a run of svc train exports to a folder, also while it goes on: read-only, on loopback,
without a token, at a free port unless --port names one. --open opens the browser.
openapi prints the description of its routes, as GET /v1/openapi.json answers it.
`;

/** Runs the command in `args` and returns the exit status: output that could not be written is a failure. */
async function main(args: readonly string[]): Promise<number> {
  const terminal = processTerminal("svc-server");
  const code = await run(args, terminal);
  return terminal.is_lost && code === EXIT.done ? EXIT.failed : code;
}

async function run(args: readonly string[], terminal: Terminal): Promise<number> {
  const [first, ...rest] = args;
  if (first === "--help" || first === "-h") return terminal.write(USAGE), EXIT.done;
  if (first === "--version" || first === "-V") return terminal.line(VERSION), EXIT.done;
  if (first === "openapi" && rest.length === 0) return terminal.write(openApiText(ROUTES)), EXIT.done;
  const viewed = first === "view" ? readViewArguments(rest) : null;
  if (!viewed && (rest.length > 0 || first === "view" || first?.startsWith("-"))) {
    return terminal.error(USAGE.trimEnd()), EXIT.usage;
  }
  try {
    if (!viewed) return await serve(first ?? null, { entry_url: import.meta.url, terminal });
    await view(viewed, { terminal });
    return EXIT.done;
  } catch (error) {
    terminal.error(printable(indented(`svc-server: ${errorText(error)}`)));
    return exitCodeOf(error);
  }
}

if (isProbeWorker()) await answerProbe();
else if (import.meta.main && isJobProcess()) await serveJobProcess();
else if (import.meta.main) {
  prepareGpuEnvironment();
  endProcess(await main(Deno.args));
}
