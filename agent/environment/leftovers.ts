/** Processes that commands of a killed run left behind, ended before its workspaces are used again. */

import { WORKSPACE_PREFIX } from "./workspace.ts";

/** A process can fork while the others are killed: so many times it is looked again. */
export const MAX_SWEEPS = 10;

/**
 * Kills every process whose home is a workspace in a folder. A command's home is its workspace, and what it starts
 * inherits that: a process is known by it when its parents are gone and its number says nothing. One that has changed
 * its home is not found. On Linux only: elsewhere nothing is done.
 *
 * @returns How many were killed.
 */
export async function killLeftovers(directory: string): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  const root = await Deno.realPath(directory).catch(() => null);
  if (root === null) return 0;
  const home = `HOME=${root}/${WORKSPACE_PREFIX}`;
  const killed = new Set<number>();
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    const found = await processesWith(home);
    if (found.length === 0) break;
    for (const pid of found) {
      killed.add(pid);
      try {
        Deno.kill(pid, "SIGKILL");
      } catch {
        // It has ended by itself.
      }
    }
  }
  return killed.size;
}

/** Processes whose environment has a variable that begins so; other users' and dead ones tell nothing. */
async function processesWith(variable: string): Promise<number[]> {
  const found: number[] = [];
  for await (const { name } of Deno.readDir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const environment = await Deno.readTextFile(`/proc/${name}/environ`).catch(() => "");
    if (environment.split("\0").some((entry) => entry.startsWith(variable))) found.push(Number(name));
  }
  return found;
}
