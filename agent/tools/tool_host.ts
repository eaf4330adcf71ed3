/** Whoever executes the calls of one trajectory: an environment, or several hosts side by side. */

import type { ToolFunction } from "../../core/chat.ts";
import { assert } from "../../core/errors.ts";

/** A call that the model made, parsed and checked against the tool's parameters. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

export interface CallAnswer {
  /** What the model is shown; null: nothing (a call that ends the trajectory). */
  result: string | null;
  /** A step reward. */
  reward: number | null;
  /** The trajectory is over. */
  done: boolean;
}

/** The tools of one scenario, known before any environment is opened: a group's prompt is rendered from them. */
export interface ToolCatalog {
  name: string;
  version: string;
  tools: ToolFunction[];
}

/** Executes calls of the tools that it lists. */
export interface ToolHost {
  /** @throws {ServiceError} `tool_failed` when the tool broke; an error that the model may see is a result. */
  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer>;
}

/** A host with the tools that it executes. */
export interface HostedTools {
  tools: readonly ToolFunction[];
  host: ToolHost;
}

/** Several hosts as one: each call goes to the host that lists its tool. No two may list one name. */
export function composeTools(parts: readonly HostedTools[]): ToolHost {
  const hosts = new Map<string, ToolHost>();
  for (const { tools, host } of parts) {
    for (const { name } of tools) {
      assert(!hosts.has(name), `the tool ${name} has one host`);
      hosts.set(name, host);
    }
  }
  return {
    call(call, signal) {
      const host = hosts.get(call.name);
      assert(host, `somebody lists the tool ${call.name}`);
      return host.call(call, signal);
    },
  };
}
