/** An environment in containers: an attempt has one at a time, and is verified in another. */

import type { EnvironmentConfig } from "../../config/schema.ts";
import { CONTAINER_DEFAULTS } from "../../config/sections/defaults.ts";
import type { ToolCall } from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario, ScenarioEnv } from "../../data/scenario.ts";
import type { CommandResult } from "../tools/sandbox.ts";
import type { CallAnswer } from "../tools/tool_host.ts";
import type { Toolset } from "../tools/toolset.ts";
import { type ToolsetChoice, toolsetOf } from "../tools/toolsets.ts";
import { probeImage, RunningContainer } from "./container/container.ts";
import { ContainerSandbox } from "./container/container_sandbox.ts";
import {
  closeFolders,
  keepFiles,
  type KeptFiles,
  openFolders,
  restoreFiles,
  WorkspaceCopy,
} from "./container/kept_files.ts";
import { becomeOwner, type Owner, PLACE_LABEL, removeOrphans } from "./container/owner.ts";
import { ContainerPool } from "./container/pool.ts";
import type { ContainerOptions } from "./container/run_arguments.ts";
import { writeProfile } from "./container/seccomp.ts";
import { type ContainerEngine, engineText, findEngine } from "./container_engine.ts";
import { imageOf, requireImage } from "./container_image.ts";
import type { Environment, EnvironmentFactory, EnvironmentGrade } from "./environment.ts";
import { protectionOf } from "./protect_globs.ts";
import { toolsetFactory } from "./toolset_factory.ts";
import { gradeByVerification, UntouchedVerifications, type Verified } from "./verification.ts";
import { NO_ENV, outcomeText } from "./verdict.ts";

/** The folder with the files that this user's living processes lock. */
export const ownersFolder = (): string => `/tmp/svc-containers-${Deno.uid() ?? "user"}`;

/** `[agent.environment]`, a clock, and the tools. */
export interface ContainerEnvironmentOptions {
  section: EnvironmentConfig;
  tools: ToolsetChoice;
  /** The default of `pool.max_live`. */
  concurrent_rollouts: number;
  /** The clock of the limits of commands. */
  clock: Clock;
  /** Receives which engine runs the containers, for people. */
  notify?: (message: string) => void;
  /** The run, as a label of its containers. */
  run?: string;
  /** Default: {@link ownersFolder}. */
  owners_folder?: string;
  /** The programs of engines, in the order in which they are tried. */
  programs?: readonly string[];
}

/**
 * Environments of `type = "container"`. The engine is looked for when the first attempt opens.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 * import { environmentSchema } from "../../config/sections/environment.ts";
 *
 * const environments = containerEnvironments({
 *   section: environmentSchema.parse({ type: "container", profile: "python" }),
 *   tools: { tools: { default: "files" }, scenario_toolsets: [] },
 *   concurrent_rollouts: 8,
 *   clock: systemClock,
 *   programs: ["no-such-engine"],
 * });
 * await assert.rejects(environments.check!(new AbortController().signal), /no-such-engine is not installed/);
 * await environments.close();
 * ```
 */
export function containerEnvironments(options: ContainerEnvironmentOptions): EnvironmentFactory {
  const { section, tools } = options;
  let opening: Promise<Opened> | null = null;
  const opened = () =>
    opening ??= openPool(options).catch((error) => {
      opening = null;
      throw error;
    });
  const open = async (
    scenario: Scenario,
    signal: AbortSignal,
    first: boolean,
  ): Promise<ContainerEnvironment> => {
    const { pool, folder } = await opened();
    return await ContainerEnvironment.open({ scenario, options, pool, folder, untouched, first, signal });
  };
  // An attempt that has ended goes before those that have not begun.
  const untouched: UntouchedVerifications = new UntouchedVerifications((scenario, signal) =>
    open(scenario, signal, true)
  );
  return {
    call_timeout_ms: section.limits.exec_timeout_secs * 1000 + CALL_EXTRA_MS,
    ...toolsetFactory(tools),
    check: (signal) => checkEngine(options, signal),
    open: (scenario, { signal }) => open(scenario, signal, false),
    async close() {
      await untouched.close();
      const left = await opening?.catch(() => null);
      await left?.pool.close();
      await left?.owner.leave();
      opening = null;
    },
  };
}

/** A tool's limit is that of its command; the container ends a call in this time after it. */
const CALL_EXTRA_MS = 5000;

/** A notice on containers whose kernel hides no process from others of its user. */
const EXPOSED_TEXT =
  "programs in these containers can read the memory of the process that reports how commands end: " +
  "an attempt could forge its verification";

interface Opened {
  pool: ContainerPool;
  owner: Owner;
  /** The owner's folder, also for copies of workspaces. */
  folder: string;
}

async function checkEngine(options: ContainerEnvironmentOptions, signal: AbortSignal): Promise<void> {
  const { programs } = options;
  const engine = await findEngine({ ...(programs && { programs }), signal });
  const owner = await becomeOwner(options.owners_folder ?? ownersFolder());
  try {
    // So that a container that a killed process leaves is found.
    const container = containerOptions(options, { engine, labels: labelsOf(options, owner) });
    await requireImage(engine, container.image, { signal });
    await probeImage(container, `${owner.prefix}probe`, signal);
  } finally {
    await owner.leave();
  }
}

function labelsOf({ run = "none" }: ContainerEnvironmentOptions, { place }: Owner): Record<string, string> {
  return { "svc.run": run, [PLACE_LABEL]: place };
}

async function openPool(options: ContainerEnvironmentOptions): Promise<Opened> {
  const { section, concurrent_rollouts, owners_folder: folder = ownersFolder(), programs } = options;
  const engine = await findEngine(programs && { programs });
  const owner = await becomeOwner(folder);
  try {
    await removeOrphans(engine, { folder, place: owner.place });
    const { seccomp_profile: theirs } = engine, ours = owner.profile_path;
    const is_strict = theirs !== null && await writeProfile(theirs, ours);
    const made = { engine, labels: labelsOf(options, owner), ...(is_strict && { seccomp_profile: ours }) };
    const container = containerOptions(options, made);
    await requireImage(engine, container.image, {});
    let count = 0, is_exposed = false;
    const pool = new ContainerPool({
      max_live: section.pool.max_live ?? concurrent_rollouts,
      reuse: section.pool.reuse ?? "never",
      async start(signal) {
        const started = await RunningContainer.start(container, `${owner.prefix}${++count}`, signal);
        if (started.is_exposed && !is_exposed) options.notify?.(EXPOSED_TEXT);
        is_exposed ||= started.is_exposed;
        return started;
      },
    });
    options.notify?.(containersText(engine, section));
    return { pool, owner, folder };
  } catch (error) {
    await owner.leave();
    throw error;
  }
}

/** Where programs of container environments run, for people. */
export function containersText(
  engine: ContainerEngine,
  { runtime }: Pick<EnvironmentConfig, "runtime">,
): string {
  const { runtimes: [first] } = engine, used = runtime ?? first;
  return 'tools and commands of environments of type "container" run in containers of ' +
    engineText({ ...engine, runtimes: used === undefined ? [] : [used] });
}

function containerOptions(
  { section }: ContainerEnvironmentOptions,
  made: Pick<ContainerOptions, "engine" | "labels" | "seccomp_profile">,
): ContainerOptions {
  const { cpus = CONTAINER_DEFAULTS.cpus, memory_mb = CONTAINER_DEFAULTS.memory_mb } = section.limits;
  return {
    ...made,
    image: imageOf(section),
    runtime: section.runtime,
    allow_network: section.allow_network ?? false,
    limits: { cpus, memory_mb },
  };
}

/**
 * The answer to a call whose container has ended. An attempt can do that itself, as by taking all memory: its grade says
 * what it is worth then. As a failure it would be dropped, and a policy could shed its bad attempts.
 */
export const LOST_RESULT =
  "error: the sandbox has ended, and its files are lost; a command may have taken all memory";

/** What a judge reads of an attempt whose container has ended, for the same reason. */
export const LOST_STATE = "(The sandbox has ended, and its files are lost.)";

interface Attempt {
  scenario: Scenario;
  options: ContainerEnvironmentOptions;
  pool: ContainerPool;
  folder: string;
  untouched: UntouchedVerifications;
  /** Whether its container goes before others that wait. */
  first: boolean;
}

class ContainerEnvironment implements Environment {
  /** The container of now: the attempt's own, or the one of its verification. */
  #current: { container: RunningContainer; is_verifier: boolean } | null = null;
  /** The workspace as the attempt left it, from its first verification on. */
  #left: WorkspaceCopy | null = null;
  /** Its folders without permissions, which no copy would be made of. */
  #closed_folders: Awaited<ReturnType<typeof openFolders>> = [];
  #kept: KeptFiles | null = null;
  #closed = false;
  /** Whether one of its containers had ended when it was given back or graded. */
  #is_lost = false;
  readonly #env: ScenarioEnv;
  readonly #toolset: Toolset;

  private constructor(readonly attempt: Attempt) {
    this.#env = attempt.scenario.env ?? NO_ENV;
    this.#toolset = toolsetOf(attempt.scenario, attempt.options.tools);
  }

  static async open(
    { signal, ...attempt }: Attempt & { signal: AbortSignal },
  ): Promise<ContainerEnvironment> {
    const environment = new ContainerEnvironment(attempt);
    try {
      await environment.#prepare(signal);
      return environment;
    } catch (error) {
      await environment.close();
      throw error;
    }
  }

  async #prepare(signal: AbortSignal): Promise<void> {
    const { scenario, pool, options, first } = this.attempt;
    const container = await pool.acquire(signal, { first });
    this.#current = { container, is_verifier: false };
    const sandbox = this.#sandbox(container);
    for (const [path, content] of Object.entries(this.#env.files)) {
      await sandbox.write(path, content).catch((cause) => {
        if (cause instanceof ServiceError) throw cause;
        const where = `Cannot set up scenario ${JSON.stringify(scenario.id)}: ${path} cannot be written`;
        throw new ServiceError("environment_failed", `${where}; see limits.memory_mb`, {}, { cause });
      });
    }
    for (const [i, line] of this.#env.setup.entries()) {
      const result = await sandbox.run({ argv: ["sh", "-c", line] }, signal);
      signal.throwIfAborted();
      if (result.code === 0) continue;
      const where = `Cannot set up scenario ${JSON.stringify(scenario.id)}: setup line ${i + 1}`;
      throw new ServiceError("environment_failed", `${where} ${outcomeText(result)}`);
    }
    const protection = protectionOf(scenario, options.section.protect);
    this.#kept = await keepFiles(container, protection, { signal });
  }

  #sandbox(container: RunningContainer): ContainerSandbox {
    const { section: { limits }, clock } = this.attempt.options;
    return new ContainerSandbox(container, { limits, clock });
  }

  async call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    signal.throwIfAborted();
    const container = await this.#own(signal);
    try {
      const answer = await this.#toolset.run({ call, sandbox: this.#sandbox(container), signal });
      return this.#hasEnded(container) ? { ...answer, sandbox_lost: true } : answer;
    } catch (error) {
      signal.throwIfAborted();
      if (!this.#hasEnded(container)) throw error;
      return { result: LOST_RESULT, reward: null, done: true, sandbox_lost: true };
    }
  }

  /** Whether a container has ended of which the attempt is not done. */
  #hasEnded(container: RunningContainer): boolean {
    return !container.is_usable && !this.attempt.pool.is_closed;
  }

  /** The attempt's container; after a verification another one with its workspace. */
  async #own(signal: AbortSignal): Promise<RunningContainer> {
    if (this.#current && !this.#current.is_verifier) {
      return this.#current.container;
    }
    const container = await this.#copy(signal, false);
    await closeFolders(container, this.#closed_folders, { paths: [], signal });
    this.#forget();
    return container;
  }

  #container(): RunningContainer {
    if (this.#current) return this.#current.container;
    throw new ServiceError("environment_failed", "Cannot go on: the workspace could not be copied");
  }

  /**
   * Replaces the container by another one with a copy of the attempt's workspace. The first goes before the second
   * comes, so that attempts never wait for each other's containers.
   */
  async #copy(signal: AbortSignal, is_verifier: boolean): Promise<RunningContainer> {
    const { pool, folder } = this.attempt;
    if (!this.#left) {
      const left = this.#container();
      this.#closed_folders = await openFolders(left, { signal });
      const made = await WorkspaceCopy.make(left, folder, { signal });
      if (this.#closed) made.close();
      else this.#left = made;
    }
    this.release();
    const container = await pool.acquire(signal, { first: true });
    if (this.#closed) {
      pool.release(container);
      throw new ServiceError("cancelled", "Cannot go on: the environment is closed");
    }
    this.#current = { container, is_verifier };
    await this.#left!.unpack(container, { signal });
    return container;
  }

  async grade(signal: AbortSignal): Promise<EnvironmentGrade> {
    const { scenario, untouched } = this.attempt;
    const grade = await gradeByVerification(scenario, this, { untouched, signal });
    if (this.#current) this.#seeEnd(this.#current.container);
    return this.#is_lost ? { ...grade, sandbox_lost: true } : grade;
  }

  async verify(signal: AbortSignal): Promise<Verified> {
    signal.throwIfAborted();
    const container = await this.#copy(signal, true);
    const kept = this.#kept!, tampered = await restoreFiles(container, kept, { signal });
    await closeFolders(container, this.#closed_folders, { paths: kept.paths, signal });
    return { result: await this.#graded(container, this.#env.verify!.command, signal), tampered };
  }

  /** Runs a command on what the attempt left. */
  #graded(container: RunningContainer, argv: readonly string[], signal: AbortSignal): Promise<CommandResult> {
    return this.#sandbox(container).run({ argv, own_home: true }, signal);
  }

  #seeEnd(container: RunningContainer): void {
    this.#is_lost ||= this.#hasEnded(container);
  }

  /** Gives back the container. */
  release(): void {
    if (!this.#current) return;
    const { container } = this.#current;
    this.#seeEnd(container);
    this.attempt.pool.release(container);
    this.#current = null;
  }

  /** The output of the scenario's `summary` command, in the container of the verification when there was one. */
  async state(signal: AbortSignal): Promise<string | null> {
    const { summary } = this.#env;
    if (!summary) return null;
    const container = this.#current?.container ?? await this.#copy(signal, true);
    const result = await this.#graded(container, summary, signal).catch((error) => {
      signal.throwIfAborted();
      if (!this.#hasEnded(container)) throw error;
      return null;
    });
    signal.throwIfAborted();
    if (result === null) return LOST_STATE;
    if (result.code === 0) return result.stdout;
    throw new ServiceError(
      "environment_failed",
      `Cannot summarise the result: the command ${outcomeText(result)}`,
    );
  }

  /** The pool ends the container, or cleans it for another attempt. */
  close(): Promise<void> {
    this.#closed = true;
    this.release();
    this.#forget();
    return Promise.resolve();
  }

  #forget(): void {
    this.#left?.close();
    this.#left = null;
  }
}
