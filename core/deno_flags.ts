/** Deno's flags for processes of this program. */

import { BUILD } from "./version.ts";

/**
 * The permissions of the program: a configuration names files anywhere, scenarios have commands of their own, and the
 * server listens. Without `ffi` a process that used the device may crash when it ends (`cli/end_process.ts`). Code is
 * never loaded over the network.
 */
export const PERMISSION_FLAGS: readonly string[] = [
  "--no-prompt",
  "--allow-read",
  "--allow-write",
  "--allow-run",
  "--allow-net",
  "--allow-env",
  "--allow-sys",
  "--allow-ffi",
];

/** Workers have narrower permissions than their process, which Deno calls unstable. */
export const WORKER_FLAGS: readonly string[] = ["--unstable-worker-options"];

/** A bundled program imports nothing, so no configuration of Deno near it may change it. */
export const BUNDLE_FLAGS: readonly string[] = ["--no-config", "--no-lock", "--no-remote", "--no-npm"];

/** The flags for another process of the program that runs: from source it needs the configuration. */
export function entryFlags(): readonly string[] {
  return BUILD ? BUNDLE_FLAGS : [];
}
