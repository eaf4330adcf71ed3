/** The servers and the suite of clients of the Model Context Protocol, which `./dev` installs with npm for tests. */

import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("mcp_servers/node_modules/@modelcontextprotocol", import.meta.url));

/** Why they cannot run here, or null when they can. */
export function mcpServersMissing(): string | null {
  try {
    Deno.statSync(`${FOLDER}/conformance`);
    return null;
  } catch {
    return "the MCP servers are not installed, ./dev test installs them with npm";
  }
}

/** The command of one of the packages, run by Deno. */
export function mcpCommand(name: string, ...args: string[]): string[] {
  const flags = ["run", "-A", "--quiet", "--no-config", "--node-modules-dir=manual"];
  return [Deno.execPath(), ...flags, `${FOLDER}/${name}/dist/index.js`, ...args];
}
