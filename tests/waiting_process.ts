/** A process that has done something and waits, for tests of what another one does meanwhile. */

import assert from "node:assert/strict";

/** Starts a script, and returns its process when it has printed `ready`. Its standard input is open until it is closed. */
export async function startWaiting(script: string): Promise<Deno.ChildProcess> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", script],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  assert.equal(new TextDecoder().decode((await reader.read()).value), "ready\n");
  reader.releaseLock();
  return child;
}
