/** A workspace of this machine. Its programs are confined where the machine can do that. */

import { join } from "node:path";
import type { Clock } from "../../core/clock.ts";
import { type CommandResult, OWN_HOME_ENV, type Sandbox, type SandboxCommand } from "../tools/sandbox.ts";
import { WorkspaceRefusal } from "../tools/workspace_files.ts";
import { type Isolation, SANDBOX_ROOT } from "./bubblewrap.ts";
import { isDoneWithin, runCommand } from "./command.ts";
import { denoFolder } from "./program.ts";
import { withSignal } from "./verdict.ts";
import { removeFolder, Workspace } from "./workspace.ts";

/** The most names of a workspace that are looked at for links before Deno runs without isolation. */
export const MAX_CHECKED_NAMES = 100_000;

/** Keys of `[agent.environment]`, a clock, and what confines programs. */
export interface LocalSandboxOptions {
  limits: { exec_timeout_secs: number };
  clock: Clock;
  /** Null or absent: programs have the rights of this process. */
  isolation?: Isolation | null;
  /** The folder of the proc file system. */
  proc?: string;
}

export class LocalSandbox extends Workspace implements Sandbox {
  /** What earlier programs left is still looked for; null: it is not. */
  #searching: Promise<unknown> | null = null;

  /** @param root Absolute, without links. */
  constructor(root: string, readonly options: LocalSandboxOptions) {
    super(root, options.isolation ? SANDBOX_ROOT : null);
  }

  /** The limit includes what is done before the program starts. */
  async run(command: SandboxCommand, signal: AbortSignal): Promise<CommandResult> {
    const { clock, limits, isolation } = this.options;
    const end_ms = clock.monotonic_ms() + limits.exec_timeout_secs * 1000;
    const leftMs = () => Math.max(0, end_ms - clock.monotonic_ms());
    const searching = this.#searching;
    if (searching && !await isDoneWithin(searching, leftMs(), clock)) return NOT_IN_TIME;
    const obstacle = isolation || command.argv[0] !== "deno" ? null : await this.#obstacleToDeno(leftMs);
    if (obstacle) return obstacle;
    try {
      return await this.#run(command, leftMs(), signal);
    } catch (error) {
      if (await this.#canBeEntered()) throw error;
      return notRun("the workspace was removed, or its permissions were");
    }
  }

  /** Whether programs can start in the workspace; an attempt can take that away. */
  async #canBeEntered(): Promise<boolean> {
    const { isDirectory, mode } = await Deno.stat(this.root).catch(() => ({ isDirectory: false, mode: 0 }));
    return isDirectory && (mode === null || (mode & 0o100) !== 0);
  }

  async #run(command: SandboxCommand, timeout_ms: number, signal: AbortSignal): Promise<CommandResult> {
    const { clock, isolation, proc } = this.options, deno = denoFolder();
    const own_home = command.own_home === true;
    const result = await runCommand({
      ...command,
      cwd: this.root,
      timeout_ms,
      clock,
      signal,
      searching: (search) => {
        this.#searching = search;
        // The next program or the removal of the workspace waits for it.
        search.then(() => {
          if (this.#searching === search) this.#searching = null;
        }, () => {});
      },
      ...proc && { proc },
      ...deno !== null && { folders: [deno] },
      ...isolation
        ? { launcher: isolation.launcher(this.root, { own_home }) }
        : await this.#unconfined(own_home),
    });
    return isolation ? withSignal(result) : this.#withoutRoot(result);
  }

  /** Resolves when nothing that the last program left can be found any more. @throws {ServiceError} */
  async settled(): Promise<void> {
    await this.#searching;
  }

  /** Removes the workspace, and what programs kept beside it. */
  async remove(): Promise<void> {
    await this.#searching?.catch(() => {});
    await Promise.allSettled([this.root, this.#deno_cache, this.#own_home].map(removeFolder));
  }

  /** Beside the workspace, so that tools do not see it. */
  get #deno_cache(): string {
    return `${this.root}-deno`;
  }

  get #own_home(): string {
    return `${this.root}-home`;
  }

  /** What a program that is not confined has besides. */
  async #unconfined(own_home: boolean): Promise<{ home?: string; env: Record<string, string> }> {
    // Deno looks for the files of a project in all folders around the workspace too.
    const deno = { DENO_NO_PACKAGE_JSON: "1", DENO_NO_UPDATE_CHECK: "1" };
    if (!own_home) return { env: { ...deno, DENO_DIR: this.#deno_cache } };
    const home = this.#own_home;
    if (await Deno.lstat(home).catch(() => null)) await removeFolder(home);
    await Deno.mkdir(home);
    return { home, env: { ...deno, DENO_DIR: join(home, "deno"), ...OWN_HOME_ENV } };
  }

  /** Replaces the workspace's random name, so that repeated runs have equal texts. */
  #withoutRoot(result: CommandResult): CommandResult {
    const shown = (text: string) => text.replaceAll(this.root, ".");
    const { stdout, stderr, tails } = result;
    return {
      ...result,
      stdout: shown(stdout),
      stderr: shown(stderr),
      ...tails && { tails: { stdout: shown(tails.stdout), stderr: shown(tails.stderr) } },
    };
  }

  /**
   * Why Deno may not run: its permissions would follow a link that leads outside. A workspace in which such links cannot
   * be looked for counts as one with them. Null: it may.
   *
   * @param leftMs The time that is left for it.
   */
  async #obstacleToDeno(leftMs: () => number): Promise<CommandResult | null> {
    const folders = [""];
    for (let names = 0; folders.length > 0;) {
      const folder = folders.pop()!;
      try {
        for await (const entry of entriesOf(join(this.root, folder))) {
          const path = folder ? `${folder}/${entry.name}` : entry.name;
          if (++names > MAX_CHECKED_NAMES) {
            return notRun(`the workspace has more than ${MAX_CHECKED_NAMES} names; remove some`);
          }
          if (entry.isDirectory) folders.push(path);
          if (!entry.isSymlink) continue;
          if (leftMs() === 0) return NOT_IN_TIME;
          if (await this.#isOutside(path)) {
            return notRun(`the link ${JSON.stringify(path)} leads outside the workspace; remove it`);
          }
        }
      } catch (error) {
        if (error instanceof Deno.errors.NotCapable) throw error;
        return notRun("a folder cannot be searched for links, as one with a long path; remove it");
      }
    }
    return null;
  }

  async #isOutside(path: string): Promise<boolean> {
    try {
      await this.resolve(path);
      return false;
    } catch (error) {
      if (error instanceof WorkspaceRefusal) return true;
      throw error;
    }
  }
}

/** The names of a folder; none when it cannot be read. */
async function* entriesOf(folder: string): AsyncGenerator<Deno.DirEntry> {
  try {
    yield* Deno.readDir(folder);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied)) {
      throw error;
    }
  }
}

/** The result of a program that cannot run. */
const notRun = (reason: string): CommandResult => ({
  ...{ code: 126, ended: "exited", stdout: "", stderr: `${reason}\n`, capped: false },
});

/** The result of a program whose time was over before it started. */
const NOT_IN_TIME: CommandResult = { code: null, ended: "timeout", stdout: "", stderr: "", capped: false };
