/**
 * An environment in a folder of this machine. It confines the paths of file tools, and programs where the machine has
 * bubblewrap.
 */

import { dirname, join } from "node:path";
import type { ToolCall } from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { doing, ServiceError } from "../../core/errors.ts";
import type { Scenario, ScenarioEnv } from "../../data/scenario.ts";
import type { CommandResult } from "../tools/sandbox.ts";
import type { CallAnswer } from "../tools/tool_host.ts";
import type { Toolset } from "../tools/toolset.ts";
import { type ToolsetChoice, toolsetOf } from "../tools/toolsets.ts";
import type { Environment, EnvironmentFactory, EnvironmentGrade, EnvironmentState } from "./environment.ts";
import { BrokenTools } from "./broken_tools.ts";
import { findIsolation, type IsolationState } from "./bubblewrap.ts";
import { LocalSandbox } from "./local_sandbox.ts";
import { protectionOf } from "./protect_globs.ts";
import { ProtectedFiles } from "./protected_files.ts";
import { toolsetFactory } from "./toolset_factory.ts";
import {
  gradeByVerification,
  type Inspect,
  stateBySummary,
  UntouchedWorkspaces,
  type Verified,
} from "./verification.ts";
import { NO_ENV, outcomeText } from "./verdict.ts";
import { WORKSPACE_PREFIX } from "./workspace.ts";

/** Keys of `[agent.environment]`, and a clock. */
export interface LocalEnvironmentOptions extends ToolsetChoice {
  allow_unsandboxed: boolean;
  protect?: readonly string[] | undefined;
  limits: { exec_timeout_secs: number };
  clock: Clock;
  /** The folder for workspaces; absent: the system's folder of temporary files. */
  directory?: string;
  /** Whether programs can be confined. Absent: as on this machine. */
  findIsolation?: () => Promise<IsolationState>;
  /** Variables of this process with keys, which programs without a sandbox can read. Default: none. */
  key_variables?: readonly string[];
  /** Tells people, once, how programs run. */
  notify?: (message: string) => void;
}

/** A call has this much longer than a command, in which the command is ended with all that it started. */
export const CALL_GRACE_MS = 1000;

/**
 * Environments of `type = "local"`.
 *
 * @throws {ServiceError} `config_invalid` without `allow_unsandboxed`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { systemClock } from "../../core/clock.ts";
 * import { parseScenario } from "../../data/scenario.ts";
 *
 * const verify = { command: ["grep", "-q", "42", "sum.txt"] };
 * const task = { id: "sum-1", user: "Write 42 to sum.txt.", metadata: { env: { verify } } };
 * const scenario = parseScenario(task, { path: "tasks.jsonl", line: 1 });
 * const environments = localEnvironments({
 *   allow_unsandboxed: true,
 *   tools: { default: "files" },
 *   scenario_toolsets: [],
 *   limits: { exec_timeout_secs: 10 },
 *   clock: systemClock,
 * });
 * const { signal } = new AbortController();
 * const environment = await environments.open(scenario, { signal, seed: 1 });
 * await environment.call({ id: "call_0", name: "write_file", arguments: { path: "sum.txt", content: "42" } }, signal);
 * assert.equal((await environment.grade(signal)).reward, 1);
 * await environment.close();
 * ```
 */
export function localEnvironments(options: LocalEnvironmentOptions): EnvironmentFactory {
  if (!options.allow_unsandboxed) {
    throw new ServiceError(
      "config_invalid",
      'Cannot use agent.environment.type = "local": the commands of scenarios run on this machine; ' +
        "set allow_unsandboxed = true to allow that",
    );
  }
  let told = false;
  const isolationOf = async () => {
    const state = await (options.findIsolation ?? findIsolation)();
    if (!told) options.notify?.(isolationText(state, options.key_variables));
    told = true;
    return state;
  };
  const open = async (scenario: Scenario, signal: AbortSignal): Promise<LocalEnvironment> => {
    const { isolation } = await isolationOf();
    return await LocalEnvironment.open({ scenario, options: { ...options, isolation, untouched }, signal });
  };
  const untouched: UntouchedWorkspaces = new UntouchedWorkspaces(open);
  return {
    call_timeout_ms: options.limits.exec_timeout_secs * 1000 + CALL_GRACE_MS,
    ...toolsetFactory(options),
    open: (scenario, { signal }) => open(scenario, signal),
    close: () => untouched.close(),
  };
}

/**
 * How programs of local environments run, for people.
 *
 * @param keys Names of variables with keys.
 */
export function isolationText(state: IsolationState, keys: readonly string[] = []): string {
  if (state.isolation) return 'tools and commands of environments of type "local" run under bubblewrap';
  const named = keys.length === 0 ? "" : `, such as the key in ${keys.join(" and ")}`;
  return 'tools and commands of environments of type "local" run WITHOUT a sandbox, with all rights of this user: ' +
    `${state.reason}. They can read this user's files and the variables of its processes${named}`;
}

/** Options of an environment that opens. */
interface OpenedOptions extends LocalEnvironmentOptions {
  isolation: IsolationState["isolation"];
  untouched: UntouchedWorkspaces;
}

class LocalEnvironment implements Environment {
  readonly #broken_tools = new BrokenTools();
  #protected: ProtectedFiles | null = null;
  #closed = false;

  private constructor(
    readonly sandbox: LocalSandbox,
    readonly task: { scenario: Scenario; env: ScenarioEnv; toolset: Toolset },
    readonly options: OpenedOptions,
  ) {}

  static async open(
    { scenario, options, signal }: {
      scenario: Scenario;
      options: OpenedOptions;
      signal: AbortSignal;
    },
  ): Promise<LocalEnvironment> {
    const { directory } = options;
    const toolset = toolsetOf(scenario, options);
    const place = { prefix: WORKSPACE_PREFIX, ...(directory ? { dir: directory } : {}) };
    const made = await doing("make a workspace", () => Deno.makeTempDir(place), "infrastructure_failed");
    const sandbox = new LocalSandbox(await Deno.realPath(made), options);
    const task = { scenario, env: scenario.env ?? NO_ENV, toolset };
    const environment = new LocalEnvironment(sandbox, task, options);
    try {
      await environment.#prepare(signal);
      return environment;
    } catch (error) {
      await environment.close();
      throw error;
    }
  }

  async #prepare(signal: AbortSignal): Promise<void> {
    const { scenario, env: { files, setup } } = this.task;
    for (const [path, content] of Object.entries(files)) {
      const full = join(this.sandbox.root, path);
      await Deno.mkdir(dirname(full), { recursive: true });
      await Deno.writeTextFile(full, content);
    }
    for (const [i, line] of setup.entries()) {
      const result = await this.sandbox.run({ argv: ["sh", "-c", line] }, signal);
      if (result.code !== 0) {
        throw new ServiceError(
          "environment_failed",
          `Cannot set up scenario ${JSON.stringify(scenario.id)}: setup line ${i + 1} ${outcomeText(result)}`,
        );
      }
    }
    this.#protected = await ProtectedFiles.keep(
      this.sandbox.root,
      protectionOf(scenario, this.options.protect),
    );
  }

  async call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    signal.throwIfAborted();
    return this.#broken_tools.noted(await this.task.toolset.run({ call, sandbox: this.sandbox, signal }));
  }

  grade(signal: AbortSignal): Promise<EnvironmentGrade> {
    return this.#inspected(gradeByVerification, signal);
  }

  async #inspected<T>(inspect: Inspect<T>, signal: AbortSignal): Promise<T> {
    const { options: { untouched }, task: { scenario } } = this;
    const found = await inspect(scenario, this, { untouched, signal });
    await this.#broken_tools.check(scenario, {}, { untouched, signal });
    return found;
  }

  start(argv: readonly string[], signal: AbortSignal): Promise<CommandResult> {
    return this.sandbox.run({ argv }, signal);
  }

  async verify(signal: AbortSignal): Promise<Verified> {
    await this.sandbox.settled();
    const restoring = this.#protected!.restore();
    const tampered = await doing("restore the protected files", () => restoring, "environment_failed");
    return { result: await this.#graded(this.task.env.verify!.command, signal), tampered };
  }

  /** Runs a command on what the attempt left. */
  #graded(argv: readonly string[], signal: AbortSignal): Promise<CommandResult> {
    return this.sandbox.run({ argv, own_home: true }, signal);
  }

  state(signal: AbortSignal): Promise<EnvironmentState> {
    return this.#inspected(stateBySummary, signal);
  }

  summarise(signal: AbortSignal): Promise<CommandResult> {
    return this.#graded(this.task.env.summary!, signal);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.sandbox.remove();
  }
}
