/** Starts programs without a shell, in their own process group and with a minimal environment. */

import { basename, dirname } from "node:path";
import { deathSignalPrefix } from "../../core/death_signal.ts";
import { ServiceError } from "../../core/errors.ts";
import { ownSession } from "../../core/own_session.ts";

/** The search path for programs. */
export const SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The folder of the program `deno` that runs this process; null in a compiled binary, which is no Deno for others. */
export function denoFolder(): string | null {
  const program = Deno.execPath();
  return basename(program) === "deno" ? dirname(program) : null;
}

/** The parts of a program that {@link startProgram} starts. */
export interface ProgramOptions {
  /** The program and its arguments. */
  argv: readonly string[];
  /** Its name in errors. */
  name: string;
  /** Its working folder. */
  cwd: string;
  /** Its HOME, by which all of its processes are found later; a real path. */
  home: string;
  /** Variables besides those of every program, or in place of them; `PATH` is also where the program is looked for. */
  env?: Readonly<Record<string, string>>;
  stdin: "null" | "piped";
  /** Folders to search after the usual ones. */
  folders?: readonly string[];
  /** A program with its arguments that starts the program, such as a sandbox. */
  launcher?: readonly string[];
}

/**
 * Starts a program with piped output. It does not inherit the caller's environment, and the caller's death kills it;
 * `killLeftovers` ends its children before the workspaces are used again.
 *
 * @throws {ServiceError} `environment_failed` when it cannot be started.
 */
export async function startProgram(
  { argv, name, cwd, home, stdin, folders = [], env = {}, launcher = [] }: ProgramOptions,
): Promise<Deno.ChildProcess> {
  const search = [...(env.PATH ?? SEARCH_PATH).split(":"), ...folders];
  await checkProgram(argv[0]!, { name, cwd, search });
  const { prefix, detached } = await ownSession();
  const [program, ...args] = [...prefix, ...await deathSignalPrefix(), ...launcher, ...argv];
  try {
    return new Deno.Command(program!, {
      args,
      cwd,
      clearEnv: true,
      env: { HOME: home, LANG: "C.UTF-8", LC_ALL: "C.UTF-8", ...env, PATH: search.join(":") },
      stdin,
      stdout: "piped",
      stderr: "piped",
      detached,
    }).spawn();
  } catch (cause) {
    const has_folder = (await Deno.stat(cwd).catch(() => null))?.isDirectory;
    const reason = has_folder ? "it does not start" : `there is no folder ${cwd}`;
    throw new ServiceError("environment_failed", `Cannot run ${name}: ${reason}`, {}, { cause });
  }
}

/** With a launcher in front, a missing program would look like one that fails. */
async function checkProgram(
  program: string,
  { name, cwd, search }: Pick<ProgramOptions, "name" | "cwd"> & { search: readonly string[] },
): Promise<void> {
  const places = program.includes("/")
    ? [program.startsWith("/") ? program : `${cwd}/${program}`]
    : search.map((directory) => `${directory}/${program}`);
  for (const place of places) {
    if ((await Deno.stat(place).catch(() => null))?.isFile) return;
  }
  throw new ServiceError("environment_failed", `Cannot run ${name}: no such program`, { no_program: true });
}

/** Kills a program and all others of its group, also in the moment after its start when it has no group yet. */
export function killProgram(child: Deno.ChildProcess): void {
  killGroup(child.pid);
  try {
    child.kill("SIGKILL");
  } catch {
    // It has ended.
  }
  // It may have got its group between the two, and started others.
  killGroup(child.pid);
}

/** Kills all that is left of the group of a program that has ended. */
export function killGroup(pid: number): void {
  try {
    Deno.kill(-pid, "SIGKILL");
  } catch {
    // The group is gone already.
  }
}
