/** The arguments of an engine that make a container: all its limits, and nothing that the engine adds by itself. */

import type { Clock } from "../../../core/clock.ts";
import type { ContainerEngine } from "../container_engine.ts";

/** `/work` and `/tmp` have this share of a container's memory each. */
export const TMPFS_SHARE = 1 / 4;

/** The most processes of a container. */
export const MAX_PROCESSES = 256;

/** The same under gVisor: its own threads, some for each program, count too. It ends where it may start no more. */
export const MAX_GVISOR_PROCESSES = 4096;

/** The user and group of the processes. */
const USER = 1000;

/** What containers are made of. */
export interface ContainerOptions {
  engine: ContainerEngine;
  image: string;
  /** The OCI runtime; absent: the engine's. */
  runtime?: string | undefined;
  allow_network: boolean;
  /** The file with the system calls that are allowed; absent: the engine's own. */
  seccomp_profile?: string | undefined;
  limits: { cpus: number; memory_mb: number };
  labels: Readonly<Record<string, string>>;
  /** The clock for the limits of the engine's own work. Default: the system's. */
  clock?: Clock;
}

/** The bytes of `/work`, and of `/tmp`. */
export function tmpfsBytes({ memory_mb }: { memory_mb: number }): number {
  return Math.floor(memory_mb * 2 ** 20 * TMPFS_SHARE);
}

/** gVisor is known by the name of its program, `runsc`, with which its runtimes are called. */
function maxProcesses({ engine, runtime = engine.runtimes[0] }: ContainerOptions): number {
  return /(^|\/)runsc[^/]*$/.test(runtime ?? "") ? MAX_GVISOR_PROCESSES : MAX_PROCESSES;
}

/** Docker adds the proxies of the user's settings, but not in place of others. */
const NO_PROXIES = ["http_proxy", "https_proxy", "ftp_proxy", "all_proxy", "no_proxy"].flatMap((name) => [
  ...["--env", `${name}=`],
  ...["--env", `${name.toUpperCase()}=`],
]);

/** The arguments that start a container with a name; `command` is its first process. */
export function runArguments(options: ContainerOptions, name: string, command: readonly string[]): string[] {
  const { engine, image, runtime, allow_network, seccomp_profile, limits, labels } = options;
  const is_podman = engine.name === "podman";
  const size = `rw,size=${tmpfsBytes(limits)}`;
  const tmpfs = is_podman ? `${size},U` : `${size},exec,uid=${USER},gid=${USER},mode=0755`;
  const [program, ...args] = command;
  return [
    ...["run", "-i", "--rm", "--name", name, "--pull", "never", "--log-driver", "none"],
    ...runtime === undefined ? [] : ["--runtime", runtime],
    ...seccomp_profile === undefined ? [] : ["--security-opt", `seccomp=${seccomp_profile}`],
    ...allow_network ? [] : ["--network", "none"],
    ...["--read-only", "--tmpfs", `/work:${tmpfs}`, "--tmpfs", `/tmp:${tmpfs}`],
    // Podman would add further places to write, and the proxies of this process's environment.
    ...is_podman ? ["--read-only-tmpfs=false", "--image-volume=ignore", "--http-proxy=false"] : NO_PROXIES,
    ...["--user", `${USER}:${USER}`, "--cpus", String(limits.cpus)],
    ...["--memory", `${limits.memory_mb}m`, "--memory-swap", `${limits.memory_mb}m`],
    ...["--pids-limit", String(maxProcesses(options)), "--cap-drop", "all"],
    ...["--security-opt", "no-new-privileges", "--no-healthcheck", "--hostname", "sandbox"],
    ...Object.entries(labels).flatMap(([key, value]) => ["--label", `${key}=${value}`]),
    ...["--workdir", "/work", "--env", "HOME=/work", "--env", "LANG=C.UTF-8", "--env", "LC_ALL=C.UTF-8"],
    // What Deno keeps is no file of the workspace.
    ...["--env", "DENO_DIR=/tmp/deno", "--env", "DENO_NO_UPDATE_CHECK=1"],
    ...["--entrypoint", program!, image, ...args],
  ];
}
