/** A workspace of this machine whose programs are not confined. */

import type { Clock } from "../../core/clock.ts";
import type { CommandResult, Sandbox, SandboxCommand } from "../tools/sandbox.ts";
import { runCommand } from "./command.ts";
import { Workspace } from "./workspace.ts";

/** Keys of `[agent.environment]`, and a clock. */
export interface LocalSandboxOptions {
  limits: { exec_timeout_secs: number };
  clock: Clock;
}

export class LocalSandbox extends Workspace implements Sandbox {
  /** @param root Absolute, without links. */
  constructor(root: string, readonly options: LocalSandboxOptions) {
    super(root);
  }

  run(command: SandboxCommand, signal: AbortSignal): Promise<CommandResult> {
    const { clock, limits } = this.options;
    return runCommand({
      ...command,
      cwd: this.root,
      timeout_ms: limits.exec_timeout_secs * 1000,
      clock,
      signal,
    });
  }
}
