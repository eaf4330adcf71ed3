/** Calls of a toolset's tools in a sandbox, for tests. */

import { deepEqual, equal } from "node:assert/strict";
import type { ManualClock } from "../../core/clock_fake.ts";
import type { Sandbox } from "./sandbox.ts";
import { checkCall, type Toolset } from "./toolset.ts";

/** A signal that never aborts. */
export const NEVER = new AbortController().signal;

/** A sandbox with what tests need of it. */
export interface TestedSandbox {
  /** Its workspace is empty. The limit of a command is 30 s. */
  sandbox: Sandbox;
  clock: ManualClock;
  /** Releases it; afterwards nothing may be left. */
  close(): Promise<void>;
}

/** A toolset in a sandbox. */
export class Tools {
  constructor(readonly toolset: Toolset, readonly tested: TestedSandbox) {}

  /** The result of a call that its definition accepts. */
  async call(name: string, args: Record<string, unknown> = {}): Promise<string> {
    equal(checkCall(this.toolset.tools, { name, arguments: args }), null, `${name} accepts its arguments`);
    const { sandbox } = this.tested;
    const answer = await this.toolset.run({
      call: { id: "c", name, arguments: args },
      sandbox,
      signal: NEVER,
    });
    deepEqual([answer.reward, answer.done], [null, false]);
    return answer.result!;
  }

  /** A call that the limit of a command ends. */
  async callToLimit(name: string, args: Record<string, unknown>): Promise<string> {
    const { clock } = this.tested, called = this.call(name, args);
    while (clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    await clock.advance(30_000);
    return await called;
  }

  bash(command: string): Promise<string> {
    return this.call("bash", { command });
  }

  write(path: string, content: string): Promise<void> {
    return this.tested.sandbox.write(path, content);
  }
}
