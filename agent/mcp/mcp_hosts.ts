/** The MCP servers of a configuration as hosts of tools, and what their threads may access. */

import {
  expandMcpServer,
  type McpServer,
  mcpServersOf,
  mcpVariables,
} from "../../config/check/mcp_config.ts";
import type { AgentConfig } from "../../config/schema.ts";
import type { PermissionNeeds } from "../../core/permissions.ts";
import { type McpHostOptions, McpServerHost } from "./mcp_server.ts";

/** The limit of a call without `[agent.environment]`, in seconds: its default there. */
export const CALL_TIMEOUT_SECS = 30;

/** Whether a configuration has MCP servers. */
export function hasMcpServers({ mcp_servers, mcp_config }: AgentConfig): boolean {
  return (mcp_servers ?? []).length > 0 || mcp_config !== undefined;
}

/**
 * The hosts of all servers; each starts with its first use.
 *
 * @throws {ServiceError} `config_invalid` for an MCP configuration file that cannot be used, and for an environment
 * variable that is not set.
 */
export function mcpHosts(
  agent: AgentConfig,
  options: Omit<McpHostOptions, "call_timeout_ms">,
): McpServerHost[] {
  const { servers, warnings } = mcpServersOf(agent);
  for (const warning of warnings) options.report(warning);
  const { exec_timeout_secs = CALL_TIMEOUT_SECS } = agent.environment?.limits ?? {};
  const call_timeout_ms = exec_timeout_secs * 1000;
  return servers.map((server) =>
    new McpServerHost(expandMcpServer(server, Deno.env.get), { ...options, call_timeout_ms })
  );
}

/**
 * What a thread with the servers may access: the file that declares them, the variables that they name, the address of
 * each remote one, and for local ones what running programs needs.
 *
 * @param written The folders in which local servers have their HOME.
 */
export function mcpNeeds(agent: AgentConfig, written: readonly string[]): PermissionNeeds {
  const { servers } = mcpServersOf(agent);
  const are_local = servers.some(({ command }) => command !== undefined);
  const read = agent.mcp_config === undefined ? [] : [agent.mcp_config];
  return {
    env: servers.flatMap(mcpVariables),
    net: servers.flatMap(hostsOf),
    ...are_local ? { read: true, run: true, write: written } : { read },
  };
}

/** The host and port of a remote server; none for a local one, and for an address that the server's start refuses. */
function hostsOf(server: McpServer): string[] {
  if (server.url === undefined) return [];
  const { command: _, env: __, headers: ___, ...only_url } = server;
  // What else of the server cannot be used is told when it starts, where the run can say so.
  const url = server.file === null ? server.url : expandMcpServer(only_url, Deno.env.get).url!;
  if (!URL.canParse(url)) return [];
  const { hostname, port, protocol } = new URL(url);
  return [`${hostname}:${port || (protocol === "https:" ? 443 : 80)}`];
}
