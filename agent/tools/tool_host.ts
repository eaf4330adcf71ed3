/** Executes the calls of a trajectory: an environment, or several hosts together. */

import type { ToolFunction } from "../../core/chat.ts";
import { assert } from "../../core/errors.ts";

/** A call by the model, parsed and checked against the tool's parameters. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: Record<string, unknown>;
}

export interface CallAnswer {
  /** The text for the model; null for none (a call that ends the trajectory). */
  result: string | null;
  /** A step reward. */
  reward: number | null;
  /** The trajectory has ended. */
  done: boolean;
}

/** The tools of a scenario, known before any environment opens: a group's prompt is rendered from them. */
export interface ToolCatalog {
  name: string;
  version: string;
  tools: ToolFunction[];
}

/** Executes calls of the tools that it lists. */
export interface ToolHost {
  /** @throws {ServiceError} `tool_failed` when the tool fails. An error for the model is a result. */
  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer>;
}

/** A host and its tools. */
export interface HostedTools {
  tools: readonly ToolFunction[];
  host: ToolHost;
}

/** Combines several hosts: each call goes to the host that lists its tool. Two hosts may not list the same name. */
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
