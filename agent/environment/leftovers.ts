/** Processes of a workspace that are still there when its command has ended, or when the run that started it is dead. */

import { WORKSPACE_PREFIX } from "./workspace.ts";

/** A process can fork while the others are killed: so many times it is looked again. */
export const MAX_SWEEPS = 10;

/**
 * Kills every process whose home is a workspace in a folder: what commands of a killed run left behind. A command's
 * home is its workspace, and what it starts inherits that: a process is known by it in whatever session it runs, when
 * its parents are gone and its number says nothing. One that has changed its home is not found. On Linux only:
 * elsewhere nothing is done.
 *
 * @returns How many were killed.
 */
export async function killLeftovers(directory: string): Promise<number> {
  const root = await Deno.realPath(directory).catch(() => null);
  return root === null ? 0 : await killByHome(literally(`${root}/${WORKSPACE_PREFIX}`));
}

/** The same for the processes of one workspace, given by its real path. */
export function killProcessesOf(workspace: string): Promise<number> {
  return killByHome(`${literally(workspace)}$`);
}

async function killByHome(pattern: string): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  const killed = new Set<number>();
  for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
    const found = await processesWith(`^HOME=${pattern}`);
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

/** A text as a basic regular expression. */
function literally(text: string): string {
  return text.replace(/[\\.*[\]^$]/g, "\\$&");
}

/**
 * Processes with a variable in their environment that matches; other users' and dead ones tell nothing. A program
 * looks, because the agent worker may run programs but not read `/proc`.
 */
async function processesWith(pattern: string): Promise<number[]> {
  const look = new Deno.Command("sh", {
    args: ["-c", 'exec grep -lze "$1" /proc/[0-9]*/environ', "sh", pattern],
    cwd: "/",
    clearEnv: true,
    env: { PATH: "/usr/bin:/bin" },
    stdin: "null",
    stderr: "null",
  });
  try {
    const { stdout } = await look.output();
    return [...new TextDecoder().decode(stdout).matchAll(/^\/proc\/(\d+)\//gm)].map(([, pid]) => Number(pid));
  } catch {
    return [];
  }
}
