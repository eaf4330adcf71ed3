/** Finds and kills processes that outlive their command or the run that started them. */

import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { ownSession } from "../../core/own_session.ts";
import { killProgram } from "./program.ts";
import { WORKSPACE_PREFIX } from "./workspace.ts";

/** A process can fork while others are killed, so the search repeats up to this often. */
export const MAX_SWEEPS = 10;

/**
 * A process has no environment for a moment while it replaces its program (`exec`), so a search that finds none but sees
 * such a process is repeated up to this often. One that replaces it again and again is in that moment at 7 % of the looks.
 */
export const MAX_UNSURE_LOOKS = 10;

/** Threads of the kernel, and processes that had neither HOME nor PATH in that many looks. They are not waited for. */
const without_variables = new Set<number>();

/**
 * The limit for searching and killing: reading a process that the system blocks can hang. A machine that is only busy, with
 * ten times as many processes as cores, must stay below it.
 */
export const LOOK_TIMEOUT_MS = 30_000;

/** Names the workspace of a program whose HOME is another folder. */
export const WORKSPACE_VARIABLE = "SVC_WORKSPACE";

export interface LeftoverOptions {
  clock?: Clock;
  /** Only processes with a greater id, unless ids have wrapped around since. Absent: all processes. */
  after?: number;
  /** The folder of the proc file system. */
  proc?: string;
}

/**
 * Kills every process of a workspace in a folder, such as those that a killed run left: its HOME or
 * {@link WORKSPACE_VARIABLE} is the workspace, as for commands and what they start, or it works in it or below. This finds
 * a process in any session, without its parents and whatever its id, unless it has changed all of these. Linux only; does
 * nothing elsewhere or when {@link canFindLeftovers} is false.
 *
 * @returns The number of killed processes.
 * @throws {ServiceError} `environment_failed` after `LOOK_TIMEOUT_MS`.
 */
export async function killLeftovers(directory: string, options: LeftoverOptions = {}): Promise<number> {
  const root = await Deno.realPath(directory).catch(() => null);
  if (root === null) return 0;
  return await killAll((path) => path.startsWith(`${root}/${WORKSPACE_PREFIX}`), options);
}

/** The same for one workspace, given by its real path. @throws {ServiceError} */
export function killProcessesOf(workspace: string, options: LeftoverOptions = {}): Promise<number> {
  return killAll((path) => path === workspace || path.startsWith(`${workspace}/`), options);
}

/** Whether this machine can find leftover processes. @throws {ServiceError} Like {@link killLeftovers}. */
export async function canFindLeftovers(options: LeftoverOptions = {}): Promise<boolean> {
  return Deno.build.os === "linux" && await within(options, (look) => look(() => false)) !== null;
}

/** Whether a path is a workspace or lies in one. */
type IsOfWorkspace = (path: string) => boolean;

async function killAll(isOfWorkspace: IsOfWorkspace, options: LeftoverOptions): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  return await within(options, (look) => sweep(() => look(isOfWorkspace), kill));
}

/**
 * Looks and kills until nothing is found, at most {@link MAX_SWEEPS} times and {@link MAX_UNSURE_LOOKS} times in doubt.
 *
 * @returns The number of killed processes.
 */
export async function sweep(
  look: () => Promise<Looked | null>,
  kill: (pid: number) => void,
): Promise<number> {
  const killed = new Set<number>();
  let sweeps = 0, unsure_looks = 0, always: readonly number[] | null = null;
  while (sweeps < MAX_SWEEPS) {
    const { found, unsure } = await look() ?? { found: [], unsure: [] };
    if (found.length > 0) {
      sweeps++;
      for (const pid of found) {
        killed.add(pid);
        kill(pid);
      }
      continue;
    }
    if (unsure.length === 0) break;
    always = (always ?? unsure).filter((pid) => unsure.includes(pid));
    if (++unsure_looks < MAX_UNSURE_LOOKS) continue;
    for (const pid of always) without_variables.add(pid);
    break;
  }
  return killed.size;
}

function kill(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch {
    // It ended by itself.
  }
}

/** What a look at the processes shows. */
export interface Looked {
  /** Processes of the workspace. */
  found: number[];
  /** Processes that had neither HOME nor PATH when they were looked at, without {@link without_variables}. */
  unsure: number[];
}

/** Finds the processes of a workspace; null when the search is impossible. */
type Look = (isOfWorkspace: IsOfWorkspace) => Promise<Looked | null>;

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
    const look: Look = (isOfWorkspace) => processesOf(isOfWorkspace, { after, proc, signal: end.signal });
    return await Promise.race([work(look), late]);
  } finally {
    end.abort();
    done.abort();
    late.catch(() => {});
  }
}

/**
 * Prints working folders and two variables of processes, and whether they have a HOME or a PATH at all. A working folder
 * that was removed has ` (deleted)` behind its name.
 */
const SIGNS = `
signs() {
  find $cwds -maxdepth 0 -type l -printf "$proc/%h/environ:CWD=%l\\0"
  grep -Hzo -e "^SVC_LOOK=$SVC_LOOK\\$" -e "^HOME=.*" -e "^${WORKSPACE_VARIABLE}=.*" -e "^PATH=" "$@"
  printf "%s:\\0" "$@"
}`;

/** Looks once at each process with a greater id, or at all when ids have wrapped around. */
const LOOK_LINE = `${SIGNS}
after=$1 proc=$2 cwds=
cd "$proc"
if [ "$after" -eq 0 ] || [ "$$" -lt "$after" ]; then
  set -- "$proc"/[0-9]*/environ
  cwds='[0-9]*/cwd'
else
  set --
  for number in [0-9]*; do
    if [ "$number" -gt "$after" ]; then set -- "$@" "$proc/$number/environ" && cwds="$cwds $number/cwd"; fi
  done
fi
signs "$@"`;

/**
 * Those of some processes that have a program: threads of the kernel have none. Where the first thread has ended, the
 * others are looked at: they have the working folder and the environment that the process seems not to have.
 */
const PROGRAM_LINE = `${SIGNS}
proc=$1 cwds= numbers=
shift
cd "$proc"
numbers=$*
set --
for number in $numbers; do
  if [ -e "$number/exe" ]; then printf "%s/%s/environ:\\0" "$proc" "$number" && continue; fi
  for thread in "$number"/task/*; do
    if [ -e "$thread/exe" ]; then set -- "$@" "$proc/$thread/environ" && cwds="$cwds $thread/cwd"; fi
  done
done
[ $# -eq 0 ] || signs "$@"`;

/** What the lines print after the folder; without a text it is only the name of a process. */
const LOOKED = /^\/(\d+)(?:\/task\/\d+)?\/environ:(.*)$/s;

/** Looks of one folder of processes. Those that are asked for while one is under way wait for it, and share the next. */
class Looks {
  #running: Promise<unknown> | null = null;
  #next: SharedLook | null = null;

  constructor(readonly proc: string) {}

  /** A look that begins from now on. @param signal Its last user ends it. */
  ask(after: number, signal: AbortSignal): SharedLook {
    if (!this.#next || this.#next.is_ended) this.#next = new SharedLook(this.proc);
    const shared = this.#next;
    shared.join(after, signal);
    if (!this.#running) this.#start();
    return shared;
  }

  #start(): void {
    const shared = this.#next;
    this.#next = null;
    this.#running = shared?.run().finally(() => this.#start()) ?? null;
  }
}

class SharedLook {
  readonly #answer = Promise.withResolvers<Printed | null>();
  readonly #end = new AbortController();
  #after = Infinity;
  #users = 0;
  #programs: Promise<Printed | null> | null = null;

  constructor(readonly proc: string) {}

  /** Whether all of its users have left: it finds nothing. */
  get is_ended(): boolean {
    return this.#end.signal.aborted;
  }

  get printed(): Promise<Printed | null> {
    return this.#answer.promise;
  }

  /** What processes that it saw have a program, asked once for all of its users, who see the same ones. */
  programsOf(pids: readonly number[]): Promise<Printed | null> {
    const { proc } = this, { signal } = this.#end;
    return this.#programs ??= printedBy(PROGRAM_LINE, [proc, ...pids.map(String)], { proc, signal });
  }

  join(after: number, signal: AbortSignal): void {
    this.#after = Math.min(this.#after, after);
    this.#users++;
    const leave = () => --this.#users === 0 && this.#end.abort();
    if (signal.aborted) leave();
    signal.addEventListener("abort", leave, { once: true });
  }

  /** Never throws. */
  async run(): Promise<void> {
    const { proc } = this, args = [String(this.#after), proc];
    await printedBy(LOOK_LINE, args, { proc, signal: this.#end.signal })
      .then(this.#answer.resolve, this.#answer.reject);
  }
}

const looks = new Map<string, Looks>();

function looksAt(proc: string): Looks {
  const known = looks.get(proc) ?? new Looks(proc);
  looks.set(proc, known);
  return known;
}

/**
 * Looks at processes; those of other users and dead ones cannot be read. A program does, because the agent worker may run
 * programs but not read `/proc`. Null when the program does not find even itself.
 */
async function processesOf(
  isOfWorkspace: IsOfWorkspace,
  { after, proc, signal }: { after: number; proc: string; signal: AbortSignal },
): Promise<Looked | null> {
  const look = looksAt(proc).ask(after, signal), looked = await look.printed;
  if (!looked?.entries.some(({ pid, text }) => pid === looked.self && text.startsWith("SVC_LOOK="))) {
    return null;
  }
  const { found, unsure: unknown } = signsOf(looked.entries, isOfWorkspace);
  const unsure = unknown.filter((pid) => !without_variables.has(pid));
  if (found.length > 0 || unsure.length === 0) return { found, unsure: [] };
  const running = await look.programsOf(unsure);
  const entries = running?.entries ?? [], programs = new Set(entries.map(({ pid }) => pid));
  for (const pid of unsure) if (!programs.has(pid)) without_variables.add(pid);
  return signsOf(entries, isOfWorkspace);
}

/** What a script prints about a process or one of its threads. */
interface LookEntry {
  pid: number;
  /** A variable or `CWD`, with its value; empty: the process is there. */
  text: string;
}

/** What a script prints about processes, and its own id. */
interface Printed {
  entries: LookEntry[];
  self: number;
}

function signsOf(entries: readonly LookEntry[], isOfWorkspace: IsOfWorkspace): Looked {
  const isSign = (text: string) => {
    const [, name, value] = /^(CWD|HOME|SVC_WORKSPACE)=(.*)$/s.exec(text) ?? [];
    if (name !== "CWD") return value !== undefined && isOfWorkspace(value);
    return isOfWorkspace(value!) || isOfWorkspace(value!.replace(/ \(deleted\)$/, ""));
  };
  const known = new Set(
    entries.flatMap(({ pid, text }) => text === "" || text.startsWith("CWD=") ? [] : [pid]),
  );
  return {
    found: [...new Set(entries.flatMap(({ pid, text }) => isSign(text) ? [pid] : []))],
    unsure: [...new Set(entries.flatMap(({ pid }) => known.has(pid) ? [] : [pid]))],
  };
}

/** Null when it cannot be started. */
async function printedBy(
  script: string,
  args: readonly string[],
  { proc, signal }: { proc: string; signal: AbortSignal },
): Promise<Printed | null> {
  if (signal.aborted) return null;
  const { prefix, detached } = await ownSession();
  const [program, ...more] = [...prefix, "sh", "-c", script, "sh", ...args];
  let look: Deno.ChildProcess;
  try {
    look = new Deno.Command(program!, {
      args: more,
      cwd: "/",
      clearEnv: true,
      env: { PATH: "/usr/bin:/bin", SVC_LOOK: crypto.randomUUID() },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
      detached,
    }).spawn();
  } catch {
    return null;
  }
  const stop = () => {
    try {
      // A search that the system blocks must not keep this process alive.
      look.unref();
    } catch {
      // It has just ended, and its id may be another's.
      return;
    }
    killProgram(look);
  };
  signal.addEventListener("abort", stop, { once: true });
  const { stdout } = await look.output();
  signal.removeEventListener("abort", stop);
  const entries = new TextDecoder().decode(stdout).split("\0").flatMap((entry) => {
    const [, number, text] = LOOKED.exec(entry.slice(proc.length)) ?? [];
    return text === undefined ? [] : [{ pid: Number(number), text }];
  });
  return { entries, self: look.pid };
}
