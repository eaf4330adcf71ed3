/**
 * Compiles the bundled program, which it writes to `dist/`, and Deno's runtime to one binary. The runtime is `denort`,
 * which Deno downloads, or the file that the environment variable `DENORT_BIN` names. `--without mcp,containers` leaves
 * parts out, `--with ui` adds the web interface, which `deno task build-ui` makes.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { BUNDLE_FLAGS, PERMISSION_FLAGS, WORKER_FLAGS } from "../core/deno_flags.ts";
import { buildParts, writeProgram } from "./bundle.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Deno's arguments to compile `script` to `binary`. */
export function compileArguments(script: string, binary: string): string[] {
  const flags = [...BUNDLE_FLAGS, ...WORKER_FLAGS, ...PERMISSION_FLAGS];
  return ["compile", "--no-check", ...flags, "--output", binary, script];
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      out: { type: "string", default: join(ROOT, "svc") },
      with: { type: "string", default: "" },
      without: { type: "string", default: "" },
    },
  });
  await writeProgram(join(ROOT, "dist"), buildParts(values));
  const args = compileArguments(join(ROOT, "dist", "svc.js"), values.out);
  const { success } = await new Deno.Command(Deno.execPath(), { args }).spawn().status;
  if (!success) {
    console.error(
      "Cannot compile svc: without denort only the bundle in dist/ is made, for an installed Deno",
    );
    Deno.exitCode = 1;
  }
}
