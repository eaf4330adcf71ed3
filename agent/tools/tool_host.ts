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
  /** The sandbox has ended, and its files are lost. Absent: it has not. */
  sandbox_lost?: true;
}

/** What a toolset answers to a call. */
export interface ToolsetAnswer extends CallAnswer {
  /** The command of a tool that could not be started: by its own fault, or by the attempt's. Absent: it was started. */
  not_started?: readonly string[];
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
  /** See {@link ToolOrigin}. */
  readonly prefix?: string;
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
  /** A tool whose name another origin has too is offered as `<prefix>__<name>`. Absent: its name stays. */
  prefix?: string | undefined;
  tools: readonly ToolFunction[];
}

/** The longest name of a tool that a model can call. */
export const MAX_TOOL_NAME = 64;

/** A name that a model can call: `_` for characters besides letters, digits, `_` and `-`, and a hash for a long end. */
export function shortName(name: string): string {
  const plain = name.replace(/[^A-Za-z0-9_-]/g, "_");
  if (plain.length <= MAX_TOOL_NAME) return plain;
  // FNV-1a: names are no secrets, and two that begin alike must differ.
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(hash ^ byte, 0x01000193);
  const end = `_${(hash >>> 0).toString(16).padStart(8, "0")}`;
  return plain.slice(0, MAX_TOOL_NAME - end.length) + end;
}

/** The tools of each origin under the names that a model sees, in the same order. */
export function visibleTools(origins: readonly ToolOrigin[]): (readonly ToolFunction[])[] {
  const counts = new Map<string, number>();
  for (const { name } of origins.flatMap(({ tools }) => tools)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return origins.map(({ prefix, tools }) => {
    if (prefix === undefined) return tools;
    return tools.map((tool) =>
      counts.get(tool.name)! > 1 ? { ...tool, name: shortName(`${prefix}__${tool.name}`) } : tool
    );
  });
}

/**
 * The tools of all origins in order, as a model sees them.
 *
 * @throws {ServiceError} `config_invalid` when two tools have one name; the reason is in the details.
 */
export function combineTools(given: readonly ToolOrigin[]): ToolFunction[] {
  const visible = visibleTools(given);
  const origins = given.map((origin, i) => ({ ...origin, tools: visible[i]! }));
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

/** A host, and its tools as {@link visibleTools} takes them. */
export type HostOfTools = Pick<ToolOrigin, "prefix" | "tools"> & { host: ToolHost };

/** The execution of all tools: each call goes to the host that has its tool, under the host's own name of it. */
export function routeCalls(hosts: readonly HostOfTools[]): ToolHost["call"] {
  const visible = visibleTools(hosts.map((host) => ({ name: "", ...host })));
  const routes = hosts.flatMap(({ tools, host }, i) =>
    tools.map(({ name }, j) => [visible[i]![j]!.name, { host, name }] as const)
  );
  const route_of = new Map(routes);
  return (call, signal) => {
    const route = route_of.get(call.name);
    assert(route, `a host has the tool ${call.name}`);
    return route.host.call({ ...call, name: route.name }, signal);
  };
}
