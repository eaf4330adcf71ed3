/** The arguments of `svc`, also in a binary that is named `svc-server`. */

import { basename } from "node:path";
import { argv0 } from "node:process";

const isServerName = (path: string) => basename(path).startsWith("svc-server");

/** The arguments of this process: under the name `svc-server` those of `svc server`, unless the first is `svc`. */
export function svcArguments(): readonly string[] {
  const [first, ...rest] = Deno.args;
  if (first === "svc") return rest;
  // Links keep the name under which the program was started, which the path of its file does not have.
  return isServerName(argv0) ? ["server", ...Deno.args] : Deno.args;
}

/** What starts the compiled program as `svc`. */
export function svcBinary(): readonly string[] {
  return isServerName(Deno.execPath()) ? [Deno.execPath(), "svc"] : [Deno.execPath()];
}
