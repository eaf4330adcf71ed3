/** Processes of a workspace that are still there when its command has ended, or when the run that started it is dead. */

import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { WORKSPACE_PREFIX } from "./workspace.ts";

/** A process can fork while the others are killed: so many times it is looked again. */
export const MAX_SWEEPS = 10;

/** How long looking and killing may take together: a process whose memory the system holds can block whoever looks. */
export const LOOK_TIMEOUT_MS = 10_000;

export interface LeftoverOptions {
  clock?: Clock;
  /** Only processes with greater numbers can be meant, unless the numbers have begun anew since. Left out: all. */
  after?: number;
  /** Where the system shows its processes. */
  proc?: string;
}

/**
 * Kills every process whose home is a workspace in a folder: what commands of a killed run left behind. A command's
 * home is its workspace, and what it starts inherits that: a process is known by it in whatever session it runs, when
 * its parents are gone and its number says nothing. One that has changed its home is not found. On Linux only:
 * elsewhere, and where {@link canFindLeftovers} is false, nothing is done.
 *
 * @returns How many were killed.
 * @throws {ServiceError} `environment_failed` after `LOOK_TIMEOUT_MS`.
 */
export async function killLeftovers(directory: string, options: LeftoverOptions = {}): Promise<number> {
  const root = await Deno.realPath(directory).catch(() => null);
  return root === null ? 0 : await killByHome(literally(`${root}/${WORKSPACE_PREFIX}`), options);
}

/** The same for the processes of one workspace, given by its real path. @throws {ServiceError} */
export function killProcessesOf(workspace: string, options: LeftoverOptions = {}): Promise<number> {
  return killByHome(`${literally(workspace)}$`, options);
}

/** Whether what a command left can be found on this machine. @throws {ServiceError} As {@link killLeftovers}. */
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
    // It has ended by itself.
  }
}

/** A text as a basic regular expression. */
function literally(text: string): string {
  return text.replace(/[\\.*[\]^$]/g, "\\$&");
}

/** Finds the processes whose home matches; null where none can be found. */
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

/** Of each process that is young enough, and of all when the numbers began anew after that one, the environment. */
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
 * Processes with a variable in their environment that matches; other users' and dead ones tell nothing. A program
 * looks, because the agent worker may run programs but not read `/proc`. Null when it does not even find itself.
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
    // One that the system does not let go must not hold this process either.
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
