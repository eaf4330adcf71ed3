/** The environment of one attempt in containers: it has one at a time, and is verified in another. */

import type { EnvironmentConfig } from "../../../config/schema.ts";
import type { ToolCall } from "../../../core/chat.ts";
import type { Clock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import type { Scenario, ScenarioEnv } from "../../../data/scenario.ts";
import type { CommandResult } from "../../tools/sandbox.ts";
import type { CallAnswer } from "../../tools/tool_host.ts";
import type { Toolset } from "../../tools/toolset.ts";
import { type ToolsetChoice, toolsetOf } from "../../tools/toolsets.ts";
import type { Environment, EnvironmentGrade, EnvironmentState } from "../environment.ts";
import { BrokenTools } from "../broken_tools.ts";
import { protectionOf } from "../protect_globs.ts";
import {
  gradeByVerification,
  type Inspect,
  stateBySummary,
  type UntouchedWorkspaces,
  type Verified,
} from "../verification.ts";
import { NO_ENV, outcomeText } from "../verdict.ts";
import type { RunningContainer } from "./container.ts";
import { ContainerSandbox } from "./container_sandbox.ts";
import {
  closeFolders,
  keepFiles,
  type KeptFiles,
  openFolders,
  restoreFiles,
  WorkspaceCopy,
} from "./kept_files.ts";
import type { ContainerPool } from "./pool.ts";

/**
 * The answer to a call whose container has ended. An attempt can do that itself, as by taking all memory: its grade says
 * what it is worth then. As a failure it would be dropped, and a policy could shed its bad attempts.
 */
export const LOST_RESULT =
  "error: the sandbox has ended, and its files are lost; a command may have taken all memory";

/** What an attempt has of its environments. */
export interface ContainerAttempt {
  scenario: Scenario;
  section: Pick<EnvironmentConfig, "limits" | "protect">;
  tools: ToolsetChoice;
  /** The clock of the limits of commands. */
  clock: Clock;
  pool: ContainerPool;
  /** For copies of the workspace. */
  folder: string;
  untouched: UntouchedWorkspaces;
  /** Whether its container goes before others that wait. */
  first: boolean;
}

/** An attempt's containers, with its workspace. */
export class ContainerEnvironment implements Environment {
  /** The container of now: the attempt's own, or the one of its verification. */
  #current: { container: RunningContainer; is_verifier: boolean } | null = null;
  /** The workspace as the attempt left it, from its first verification on. */
  #left: WorkspaceCopy | null = null;
  /** Its folders without permissions, which no copy would be made of. */
  #closed_folders: Awaited<ReturnType<typeof openFolders>> = [];
  #kept: KeptFiles | null = null;
  #closed = false;
  readonly #broken_tools = new BrokenTools();
  /** Whether one of its containers had ended when it was given back or graded. */
  #is_lost = false;
  readonly #env: ScenarioEnv;
  readonly #toolset: Toolset;

  private constructor(readonly attempt: ContainerAttempt) {
    this.#env = attempt.scenario.env ?? NO_ENV;
    this.#toolset = toolsetOf(attempt.scenario, attempt.tools);
  }

  static async open(
    { signal, ...attempt }: ContainerAttempt & { signal: AbortSignal },
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
    const { scenario, section, pool, first } = this.attempt;
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
    const protection = protectionOf(scenario, section.protect);
    this.#kept = await keepFiles(container, protection, { signal });
  }

  #sandbox(container: RunningContainer): ContainerSandbox {
    const { section: { limits }, clock } = this.attempt;
    return new ContainerSandbox(container, { limits, clock });
  }

  async call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    signal.throwIfAborted();
    const container = await this.#own(signal);
    try {
      const given = await this.#toolset.run({ call, sandbox: this.#sandbox(container), signal });
      const answer = this.#broken_tools.noted(given);
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
    return await this.#inspected(gradeByVerification, signal);
  }

  async #inspected<T extends object>(inspect: Inspect<T>, signal: AbortSignal): Promise<T> {
    const { scenario, untouched } = this.attempt;
    const found = await inspect(scenario, this, { untouched, signal });
    await this.#broken_tools.check(scenario, this, { untouched, signal });
    return this.#withEnd(found);
  }

  start(argv: readonly string[], signal: AbortSignal): Promise<CommandResult> {
    return this.#sandbox(this.#container()).run({ argv }, signal);
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

  #seeEnd(): void {
    this.#is_lost ||= this.#current !== null && this.#hasEnded(this.#current.container);
  }

  /** What is found out about the attempt, with the end of one of its containers. */
  #withEnd<T extends object>(found: T): T & { sandbox_lost?: true } {
    this.#seeEnd();
    return this.#is_lost ? { ...found, sandbox_lost: true } : found;
  }

  /** Gives back the container. */
  release(): void {
    if (!this.#current) return;
    this.#seeEnd();
    this.attempt.pool.release(this.#current.container);
    this.#current = null;
  }

  async state(signal: AbortSignal): Promise<EnvironmentState> {
    return await this.#inspected(stateBySummary, signal);
  }

  /** In the container of the verification when there was one. */
  async summarise(signal: AbortSignal): Promise<CommandResult> {
    const container = this.#current?.container ?? await this.#copy(signal, true);
    return await this.#graded(container, this.#env.summary!, signal);
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
