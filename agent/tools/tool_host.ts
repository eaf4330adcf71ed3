/** Hosts of tools: the environment, and others such as a child process or a session with a server. */

import type { ToolCall, ToolFunction } from "../../core/chat.ts";
import { assert, ServiceError } from "../../core/errors.ts";

export interface CallAnswer {
  /** The text for the model; null for none (a call that ends the attempt). */
  result: string | null;
  /** A step reward. */
  reward: number | null;
  /** The attempt has ended. */
  done: boolean;
}

/** The tools of a scenario, known before any environment opens: a group's prompt is rendered from them. */
export interface ToolCatalog {
  name: string;
  version: string;
  tools: ToolFunction[];
}

/** Executes the calls of one attempt. */
export interface ToolHost {
  /**
   * @param call Checked against the tool's parameters.
   * @throws {ServiceError} `tool_failed` when the tool fails. An error for the model is a result.
   */
  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer>;
  /** Releases all resources of the attempt. Never throws; a second call does nothing. */
  close(): Promise<void>;
}

/**
 * Tools besides those of the environment. What all attempts share, such as a child process, starts with the first
 * `list` or `open` and ends with `close`; what an attempt has for itself starts with `open` and ends with its host.
 */
export interface ToolHostFactory {
  /** Names the tools' origin in messages, such as `the MCP server "search"`. */
  readonly name: string;
  /** The tools, for all scenarios the same. @throws When they cannot be listed. */
  list(signal: AbortSignal): Promise<readonly ToolFunction[]>;
  /** Opens the tools for one attempt. @throws When they cannot be opened. */
  open(signal: AbortSignal): Promise<ToolHost>;
  /** Releases what attempts share and what they left open. Never throws; a second call does nothing. */
  close(): Promise<void>;
}

/** Tools and where they come from. */
export interface ToolOrigin {
  /** Completes "… has the tool", such as `the toolset "files"`. */
  name: string;
  tools: readonly ToolFunction[];
}

/**
 * The tools of all origins in order.
 *
 * @throws {ServiceError} `config_invalid` when two tools have one name; the reason is in the details.
 */
export function combineTools(origins: readonly ToolOrigin[]): ToolFunction[] {
  const origin_of = new Map<string, string>();
  for (const { name: origin, tools } of origins) {
    for (const { name } of tools) {
      const first = origin_of.get(name);
      if (first !== undefined) throw nameClash(name, first === origin ? [origin] : [first, origin]);
      origin_of.set(name, origin);
    }
  }
  return origins.flatMap(({ tools }) => tools);
}

function nameClash(tool: string, origins: string[]): ServiceError {
  const verb = origins.length > 1 ? "both have it" : "has it twice";
  const reason = `the name ${JSON.stringify(tool)} is not unique: ${origins.join(" and ")} ${verb}; ` +
    "rename one, or do not offer it";
  return new ServiceError("config_invalid", `Cannot offer the tools: ${reason}`, { reason });
}

/** The execution of all tools: each call goes to the host that has its tool. */
export function routeCalls(
  hosts: readonly { tools: readonly ToolFunction[]; host: ToolHost }[],
): ToolHost["call"] {
  const host_of = new Map(hosts.flatMap(({ tools, host }) => tools.map(({ name }) => [name, host] as const)));
  return (call, signal) => {
    const host = host_of.get(call.name);
    assert(host, `a host has the tool ${call.name}`);
    return host.call(call, signal);
  };
}
