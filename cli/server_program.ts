/** The arguments of `svc-server`, which are also those of `svc server`. */

import { errorText } from "../core/errors.ts";
import { indented, printable } from "../core/text.ts";
import { VERSION_TEXT } from "../core/version.ts";
import { ROUTES } from "../server/route_table.ts";
import { openApiText } from "../server/routing/openapi.ts";
import { EXIT, exitCodeOf } from "./exit_codes.ts";
import { serve, type ServeOptions } from "./serve.ts";
import { readViewArguments, view } from "./view.ts";

const USAGE = `Usage: svc-server [server.toml]
       svc-server view <observe_dir> [--open] [--port <n>]
       svc-server openapi

Runs the HTTP API. Without a file it takes the defaults: http://127.0.0.1:8471, data in ./svc-data.
view shows the trajectories that a run of svc train exports to a folder, also while it trains: read-only, on loopback,
without a token, at a free port unless --port names one. --open opens the browser.
openapi prints the description of its routes, as GET /v1/openapi.json answers it.
`;

/** Runs the command in `args` and returns the exit status: output that could not be written is a failure. */
export async function runServerProgram(args: readonly string[], options: ServeOptions): Promise<number> {
  const code = await run(args, options);
  return options.terminal.is_lost && code === EXIT.done ? EXIT.failed : code;
}

async function run(args: readonly string[], options: ServeOptions): Promise<number> {
  const { terminal } = options;
  const [first, ...rest] = args;
  if (first === "--help" || first === "-h") return terminal.write(USAGE), EXIT.done;
  if (first === "--version" || first === "-V") return terminal.line(VERSION_TEXT), EXIT.done;
  if (first === "openapi" && rest.length === 0) return terminal.write(openApiText(ROUTES)), EXIT.done;
  const viewed = first === "view" ? readViewArguments(rest) : null;
  if (!viewed && (rest.length > 0 || first === "view" || first?.startsWith("-"))) {
    return terminal.error(USAGE.trimEnd()), EXIT.usage;
  }
  try {
    if (!viewed) return await serve(first ?? null, options);
    await view(viewed, { terminal });
    return EXIT.done;
  } catch (error) {
    terminal.error(printable(indented(`svc-server: ${errorText(error)}`)));
    return exitCodeOf(error);
  }
}
