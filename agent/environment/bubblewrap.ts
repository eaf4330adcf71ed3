/** Bubblewrap: confines a program to its workspace, where the machine has it. */

import { errorText } from "../../core/errors.ts";
import { OWN_HOME_ENV } from "../tools/sandbox.ts";
import { denoFolder, SEARCH_PATH } from "./program.ts";

/** The path under which programs know their workspace. */
export const SANDBOX_ROOT = "/work";

/** The most bytes of data and stack of each process: not of mapped files and of address space that is only reserved. */
export const MAX_DATA_BYTES = 2 * 2 ** 30;

/** The most bytes of a file. */
export const MAX_FILE_BYTES = 256 * 2 ** 20;

/** The most bytes of all files in `/tmp`, which each program has for itself. */
export const MAX_TMP_BYTES = 256 * 2 ** 20;

/** The most processes. Linux does not apply it where the service runs as root. */
export const MAX_PROCESSES = 256;

/** The folder in the sandbox with the program `deno` of this process. */
const DENO_FOLDER = "/opt/deno";

/** How programs of a workspace are confined. */
export interface Isolation {
  /** What starts a program in the sandbox of a workspace, without the program itself. */
  launcher(workspace: string, options?: { own_home?: boolean }): string[];
}

/** Whether bubblewrap works here. */
export type IsolationState = { isolation: Isolation } | { isolation: null; reason: string };

let state: Promise<IsolationState> | null = null;

/** Looks for bubblewrap and tries it, once for each thread. Never throws. */
export function findIsolation(): Promise<IsolationState> {
  return state ??= tryBubblewrap();
}

async function tryBubblewrap(): Promise<IsolationState> {
  if (Deno.build.os !== "linux") return { isolation: null, reason: "bubblewrap needs Linux" };
  const roots = await rootArguments(), deno = await denoArguments();
  let reason = "";
  // Versions before 0.8 have no --disable-userns.
  for (const more of [["--unshare-user", "--disable-userns"], []]) {
    const isolation: Isolation = {
      launcher: (workspace, { own_home = false } = {}) => [
        ...[...launcherStart(workspace), ...roots, ...deno, ...more],
        ...[...own_home ? OWN_HOME : [], ...LAUNCHER_END],
      ],
    };
    const failure = await failureOf(isolation);
    if (failure === null) return { isolation };
    reason = failure;
  }
  return { isolation: null, reason };
}

async function failureOf(isolation: Isolation): Promise<string | null> {
  const [program, ...args] = [...isolation.launcher("/usr"), "true"];
  try {
    const command = new Deno.Command(program!, {
      args,
      env: { PATH: SEARCH_PATH },
      clearEnv: true,
      stdin: "null",
    });
    const { success, stderr } = await command.output();
    return success ? null : `bwrap fails: ${new TextDecoder().decode(stderr).trim().slice(0, 200)}`;
  } catch (error) {
    return error instanceof Deno.errors.NotFound
      ? "bwrap is not installed (apt-get install bubblewrap)"
      : errorText(error).slice(0, 200);
  }
}

/** Arguments of `bwrap` up to the file systems of the machine. */
function launcherStart(workspace: string): string[] {
  return [
    ...["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"],
    ...["--uid", "1000", "--gid", "1000", "--hostname", "sandbox"],
    // Where the service runs as root, the kernel lets processes of its user id write the machine's settings there.
    ...["--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys"],
    ...["--dev", "/dev", "--size", String(MAX_TMP_BYTES), "--tmpfs", "/tmp"],
    ...["--bind", workspace, SANDBOX_ROOT, "--chdir", SANDBOX_ROOT],
    ...["--clearenv", "--setenv", "HOME", SANDBOX_ROOT, "--setenv", "DENO_DIR", "/tmp/deno"],
    ...["--setenv", "LANG", "C.UTF-8", "--setenv", "LC_ALL", "C.UTF-8"],
    ...["--setenv", "PATH", `${SEARCH_PATH}:${DENO_FOLDER}`],
  ];
}

/** An empty HOME in the program's own `/tmp`. */
const OWN_HOME = [
  ...["--dir", "/tmp/home", "--setenv", "HOME", "/tmp/home"],
  ...Object.entries(OWN_HOME_ENV).flatMap(([name, value]) => ["--setenv", name, value]),
];

/** The last arguments, and what sets the limits of the program's processes. */
const LAUNCHER_END = [
  ...["--remount-ro", "/", "--", "prlimit", `--data=${MAX_DATA_BYTES}`, `--fsize=${MAX_FILE_BYTES}`],
  ...[`--nproc=${MAX_PROCESSES}`, "--core=0", "--"],
];

/** The machine's programs and libraries, which cannot be written to; nothing of its other folders is there. */
async function rootArguments(): Promise<string[]> {
  const args = ["--ro-bind", "/usr", "/usr"];
  for (const name of ["bin", "sbin", "lib", "lib32", "lib64"]) {
    const info = await Deno.lstat(`/${name}`).catch(() => null);
    if (info?.isSymlink) args.push("--symlink", await Deno.readLink(`/${name}`), `/${name}`);
    else if (info) args.push("--ro-bind", `/${name}`, `/${name}`);
  }
  for (const path of ["/etc/alternatives", "/etc/ld.so.cache"]) args.push("--ro-bind-try", path, path);
  return args;
}

async function denoArguments(): Promise<string[]> {
  const folder = denoFolder();
  return folder === null ? [] : ["--ro-bind", await Deno.realPath(`${folder}/deno`), `${DENO_FOLDER}/deno`];
}
