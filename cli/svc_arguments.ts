/** The arguments of `svc`, also in a binary that is named `svc-server`. */

import { basename } from "node:path";
import { argv0 } from "node:process";

/** The first argument that makes a binary named `svc-server` run as `svc`. No configuration can have this name. */
const AS_SVC = "--svc";

const isServerName = (path: string) => basename(path).startsWith("svc-server");

/** The arguments of this process: under the name `svc-server` those of `svc server`, unless the first says otherwise. */
export function svcArguments(): readonly string[] {
  // Links keep the name under which the program was started, which the path of its file does not have.
  if (!isServerName(argv0)) return Deno.args;
  const [first, ...rest] = Deno.args;
  return first === AS_SVC ? rest : ["server", ...Deno.args];
}

/** The command that starts the compiled program as `svc`. */
export function svcBinary(): readonly string[] {
  return isServerName(Deno.execPath()) ? [Deno.execPath(), AS_SVC] : [Deno.execPath()];
}
