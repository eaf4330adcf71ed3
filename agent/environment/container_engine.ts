/** The container engine of this machine: Podman or Docker, through its command line. */

import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";

/** The time that an engine has for an answer that starts nothing. */
export const ENGINE_TIMEOUT_MS = 15_000;

/** The most bytes of each output of an engine's program that are kept. */
export const MAX_ANSWER_BYTES = 1 << 20;

/** The most characters of an engine's message in an error. */
export const QUOTED_CHARS = 400;

/** The environment variable with the address of a Docker engine. */
export const DOCKER_HOST = "DOCKER_HOST";

/** The places where Podman has the list of system calls that containers may make. */
export const SECCOMP_FILES = ["/usr/share/containers/seccomp.json", "/etc/containers/seccomp.json"] as const;

/** The controllers of cgroups that limit containers. */
const NEEDED_CONTROLLERS = ["cpu", "memory", "pids"];

/** The kinds of engines. */
export const ENGINE_NAMES = ["podman", "docker"] as const;

/** One of {@link ENGINE_NAMES}. */
export type EngineName = typeof ENGINE_NAMES[number];

/** An engine that answers and keeps the limits of its containers. */
export interface ContainerEngine {
  /** The kind, which its answer tells: a program `docker` may be Podman. */
  name: EngineName;
  /** The program that is called. */
  program: string;
  version: string;
  rootless: boolean;
  cgroups: "v1" | "v2";
  /** The OCI runtimes that it names; the one that it uses by default stands first. */
  runtimes: readonly string[];
  /** The file with the system calls that its containers may make; null when it does not say. */
  seccomp_profile: string | null;
}

/** Options of a search. */
export interface EngineSearch {
  clock?: Clock;
  /** The programs, in the order in which they are tried. Default: those on the search path. */
  programs?: readonly string[];
  signal?: AbortSignal;
}

/**
 * Podman, else Docker; with {@link DOCKER_HOST} set, Docker first. An engine that is installed and does not answer, or
 * would ignore limits, is not used, and neither is the next one when `DOCKER_HOST` names it.
 *
 * @throws {ServiceError} `infrastructure_failed` with the reason for each, and what to do.
 */
export async function findEngine(options: EngineSearch = {}): Promise<ContainerEngine> {
  const named = Deno.env.get(DOCKER_HOST);
  const programs = options.programs ?? (named ? [...ENGINE_NAMES].reverse() : ENGINE_NAMES);
  const reasons: string[] = [];
  for (const program of programs) {
    try {
      return await inspectEngine(program, options);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      reasons.push(error.message);
      const is_missing = error.details.missing === true;
      if (named && !is_missing) break;
    }
  }
  throw new ServiceError("infrastructure_failed", `Cannot start containers: ${reasons.join("; ")}`);
}

/** What an engine says of itself. @throws {ServiceError} With a message that completes "Cannot start containers: ". */
async function inspectEngine(program: string, { clock, signal }: EngineSearch): Promise<ContainerEngine> {
  const asked = await askEngine(program, ["info", "--format", "{{json .}}"], {
    ...(clock && { clock }),
    ...(signal && { signal }),
  });
  let info: unknown;
  try {
    info = JSON.parse(asked.stdout);
  } catch {
    info = null;
  }
  const errors = isJsonObject(info) && Array.isArray(info.ServerErrors) ? info.ServerErrors : [];
  if (asked.code !== 0 || errors.length > 0) {
    const reason = (asked.stderr.trim() || errors.join("; ")).slice(0, QUOTED_CHARS).toWellFormed();
    throw engineError(`${program} does not answer (${reason}); start it`);
  }
  const engine = isJsonObject(info) ? podmanFacts(program, info) ?? dockerFacts(program, info) : null;
  if (!engine) throw engineError(`${program} info gave no answer that can be read`);
  return engine;
}

function podmanFacts(program: string, { host, version }: Record<string, unknown>): ContainerEngine | null {
  if (!isJsonObject(host) || !isJsonObject(version) || !isJsonObject(host.security)) return null;
  const { cgroupVersion, cgroupControllers, ociRuntime } = host;
  const engine: ContainerEngine = {
    name: "podman",
    program,
    version: String(version.Version),
    rootless: host.security.rootless === true,
    cgroups: cgroupVersion === "v1" ? "v1" : "v2",
    runtimes: isJsonObject(ociRuntime) && typeof ociRuntime.name === "string" ? [ociRuntime.name] : [],
    seccomp_profile: profileOf(host.security),
  };
  const held = Array.isArray(cgroupControllers) ? cgroupControllers : [];
  const lacking = NEEDED_CONTROLLERS.filter((name) => !held.includes(name));
  refuseWithoutLimits(engine, lacking);
  return engine;
}

function dockerFacts(program: string, info: Record<string, unknown>): ContainerEngine | null {
  if (typeof info.ServerVersion !== "string") return null;
  const options = Array.isArray(info.SecurityOptions) ? info.SecurityOptions.map(String) : [];
  const engine: ContainerEngine = {
    name: "docker",
    program,
    version: info.ServerVersion,
    rootless: options.some((option) => option.includes("name=rootless")),
    cgroups: info.CgroupVersion === "1" ? "v1" : "v2",
    runtimes: dockerRuntimes(info),
    seccomp_profile: null,
  };
  const lacking = [["CpuCfsQuota", "cpu"], ["MemoryLimit", "memory"], ["PidsLimit", "pids"]] as const;
  refuseWithoutLimits(engine, lacking.filter(([key]) => info[key] === false).map(([, name]) => name));
  return engine;
}

/** @param security The part of `podman info`. */
function profileOf({ seccompEnabled, seccompProfilePath }: Record<string, unknown>): string | null {
  return seccompEnabled === true && typeof seccompProfilePath === "string" ? seccompProfilePath : null;
}

function dockerRuntimes({ DefaultRuntime: first, Runtimes: all }: Record<string, unknown>): string[] {
  const named = isJsonObject(all) ? Object.keys(all).sort() : [];
  return typeof first === "string" ? [...new Set([first, ...named])] : named;
}

/** An engine in a line: "podman 4.3.1, cgroup v2, rootless, runtime crun". */
export function engineText({ name, program, version, rootless, cgroups, runtimes }: ContainerEngine): string {
  const called = program === name ? "" : ` (${program})`, runs = runtimes.join(", ") || "unknown";
  return `${name} ${version}${called}, cgroup ${cgroups}, ${
    rootless ? "rootless" : "as root"
  }, runtime ${runs}`;
}

/** Such an engine starts containers whose limits have no effect. */
function refuseWithoutLimits({ program, rootless, cgroups }: ContainerEngine, lacking: string[]): void {
  const controllers = lacking.length > 0 ? lacking : NEEDED_CONTROLLERS;
  const fix = `use cgroup v2 with the controllers ${
    controllers.join(", ")
  } delegated to the user, or run the engine as root`;
  if (rootless && cgroups === "v1") {
    throw engineError(
      `${program} runs rootless on cgroup v1, where it ignores the limits of containers; ${fix}`,
    );
  }
  if (lacking.length > 0) {
    throw engineError(
      `${program} cannot limit containers: it lacks the cgroup controllers ${lacking.join(", ")}; ${fix}`,
    );
  }
}

function engineError(message: string, details: { missing?: true } = {}): ServiceError {
  return new ServiceError("infrastructure_failed", message, details);
}

/** An engine's answer. */
export interface EngineAnswer {
  code: number;
  stdout: string;
  stderr: string;
}

/** How long to wait for an engine, and on which clock. */
export interface EngineWait {
  clock?: Clock;
  timeout_ms?: number;
  signal?: AbortSignal;
}

/**
 * Calls an engine's program to its end. It has the environment of this process, where its own settings are.
 *
 * @throws {ServiceError} `infrastructure_failed` when it is not installed, or gives no answer in time.
 */
export async function askEngine(
  program: string,
  args: readonly string[],
  { clock = systemClock, timeout_ms = ENGINE_TIMEOUT_MS, signal }: EngineWait = {},
): Promise<EngineAnswer> {
  signal?.throwIfAborted();
  const child = startEngineProgram(program, args, "null");
  const done = new AbortController();
  const ended = signal ? AbortSignal.any([done.signal, signal]) : done.signal;
  let is_late = false;
  const outputs = [child.stdout, child.stderr].map((stream) => stream.getReader());
  const kill = () => {
    try {
      child.kill("SIGKILL");
    } catch { /* it ended by itself */ }
    // What it started may have its outputs, and go on.
    for (const output of outputs) output.cancel().catch(() => {});
  };
  signal?.addEventListener("abort", kill, { once: true, signal: done.signal });
  clock.sleep(timeout_ms, ended).then(() => {
    is_late = true;
    kill();
  }, () => {});
  const [texts, { code }] = await Promise.all([Promise.all(outputs.map(cappedText)), child.status]);
  done.abort();
  signal?.throwIfAborted();
  if (is_late) {
    throw engineError(`${program} gave no answer within ${timeout_ms / 1000} s; see that it works`);
  }
  return { code, stdout: texts[0]!, stderr: texts[1]! };
}

/** Starts an engine's program. @throws {ServiceError} `infrastructure_failed` when it is not installed. */
export function startEngineProgram(
  program: string,
  args: readonly string[],
  stdin: "null" | "piped",
): Deno.ChildProcess {
  try {
    return new Deno.Command(program, {
      args: [...args],
      // Podman's monitor leaves a file "oom" in this folder when a container's memory is exhausted.
      ...(Deno.build.os === "linux" && { cwd: "/tmp" }),
      stdin,
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    const is_missing = cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotCapable;
    if (!is_missing) throw cause;
    throw engineError(`${program} is not installed`, { missing: true });
  }
}

async function cappedText(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "", left = MAX_ANSWER_BYTES;
  while (true) {
    const { value, done } = await reader.read();
    if (done) return text;
    text += decoder.decode(value.subarray(0, left), { stream: true });
    left -= Math.min(left, value.length);
  }
}

/** The last lines of an engine's message, for an error. */
export function engineReason(answer: Pick<EngineAnswer, "stderr">): string {
  return answer.stderr.trim().slice(-QUOTED_CHARS).toWellFormed() || "it says nothing";
}

/** The arguments that remove containers at once, with the volumes that were made for them. */
export function removal({ name }: ContainerEngine, containers: readonly string[]): string[] {
  return ["rm", "-f", "-v", ...name === "podman" ? ["-t", "0"] : [], ...containers];
}
