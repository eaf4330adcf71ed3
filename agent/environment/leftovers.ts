/** Finds and kills processes that outlive their command or the run that started them. */

import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { WORKSPACE_PREFIX } from "./workspace.ts";

/** A process can fork while others are killed, so the search repeats up to this often. */
const MAX_SWEEPS = 10;

/**
 * The limit for searching and killing: reading a process that the system blocks can hang. A machine that is only busy, with
 * ten times as many processes as cores, must stay below it.
 */
export const LOOK_TIMEOUT_MS = 30_000;

export interface LeftoverOptions {
  clock?: Clock;
  /** Only processes with a greater id, unless ids have wrapped around since. Absent: all processes. */
  after?: number;
  /** The folder of the proc file system. */
  proc?: string;
}

/**
 * Kills every process whose HOME is a workspace in a folder, such as those that a killed run left. A command's HOME is
 * its workspace, and its children inherit it. This finds a process in any session, without its parents and whatever its
 * id, unless it changed HOME. Linux only; does nothing elsewhere or when {@link canFindLeftovers} is false.
 *
 * @returns The number of killed processes.
 * @throws {ServiceError} `environment_failed` after `LOOK_TIMEOUT_MS`.
 */
export async function killLeftovers(directory: string, options: LeftoverOptions = {}): Promise<number> {
  const root = await Deno.realPath(directory).catch(() => null);
  return root === null ? 0 : await killByHome(literally(`${root}/${WORKSPACE_PREFIX}`), options);
}

/** The same for one workspace, given by its real path. @throws {ServiceError} */
export function killProcessesOf(workspace: string, options: LeftoverOptions = {}): Promise<number> {
  return killByHome(`${literally(workspace)}$`, options);
}

/** Whether this machine can find leftover processes. @throws {ServiceError} Like {@link killLeftovers}. */
export async function canFindLeftovers(options: LeftoverOptions = {}): Promise<boolean> {
  return Deno.build.os === "linux" && await within(options, (look) => look("nowhere$")) !== null;
}

async function killByHome(pattern: string, options: LeftoverOptions): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  const killed = new Set<number>();
  await within(options, async (look) => {
    for (let sweep = 0; sweep < MAX_SWEEPS; sweep++) {
      const found = await look(pattern) ?? [];
      if (found.length === 0) break;
      for (const pid of found) {
        killed.add(pid);
        kill(pid);
      }
    }
  });
  return killed.size;
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}

/** Escapes a text for a basic regular expression. */
function literally(text: string): string {
  return text.replace(/[\\.*[\]^$]/g, "\\$&");
}

/** Finds the processes whose HOME matches; null when the search is impossible. */
type Look = (home: string) => Promise<number[] | null>;

async function within<T>(options: LeftoverOptions, work: (look: Look) => Promise<T>): Promise<T> {
  const { clock = systemClock, after = 0, proc = "/proc" } = options;
  const end = new AbortController(), done = new AbortController();
  const late = clock.sleep(LOOK_TIMEOUT_MS, done.signal).then(() => {
    const reason = `${proc} could not be read within ${LOOK_TIMEOUT_MS / 1000} s`;
    const fix = "a process of this machine is stuck in the system; end it, or start the machine anew";
    throw new ServiceError(
      "environment_failed",
      `Cannot look for processes that a command left: ${reason}: ${fix}`,
    );
  });
  try {
    const look = (home: string) => processesWith(`^HOME=${home}`, { after, proc, signal: end.signal });
    return await Promise.race([work(look), late]);
  } finally {
    end.abort();
    done.abort();
    late.catch(() => {});
  }
}

/** Searches the environment of each process with a greater id, or of all processes when ids have wrapped around. */
const LOOK_LINE = `
pattern=$1 after=$2 proc=$3 self="^SVC_LOOK=$SVC_LOOK\\$"
if [ "$after" -eq 0 ] || [ "$$" -lt "$after" ]; then
  exec grep -lz -e "$self" -e "$pattern" "$proc"/[0-9]*/environ
fi
cd "$proc" && set --
for number in [0-9]*; do
  if [ "$number" -gt "$after" ]; then set -- "$@" "$proc/$number/environ"; fi
done
exec grep -lz -e "$self" -e "$pattern" "$@"`;

/**
 * The processes with a matching environment variable; those of other users and dead ones cannot be read. A program
 * searches, because the agent worker may run programs but not read `/proc`. Null when the program does not find even
 * itself.
 */
async function processesWith(
  pattern: string,
  { after, proc, signal }: { after: number; proc: string; signal: AbortSignal },
): Promise<number[] | null> {
  if (signal.aborted) return null;
  let look: Deno.ChildProcess;
  try {
    look = new Deno.Command("sh", {
      args: ["-c", LOOK_LINE, "sh", pattern, String(after), proc],
      cwd: "/",
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", SVC_LOOK: crypto.randomUUID() },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
  } catch {
    return null;
  }
  const stop = () => {
    // A search that the system blocks must not keep this process alive.
    look.unref();
    kill(look.pid);
  };
  signal.addEventListener("abort", stop, { once: true });
  const { stdout } = await look.output();
  signal.removeEventListener("abort", stop);
  const found = [...new TextDecoder().decode(stdout).matchAll(/\/(\d+)\/environ$/gm)].map(([, pid]) =>
    Number(pid)
  );
  return found.includes(look.pid) ? found.filter((pid) => pid !== look.pid) : null;
}
