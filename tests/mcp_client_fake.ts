/** A client for @modelcontextprotocol/conformance: lists the tools of the server at its argument, and calls each. */

import { McpServerHost } from "../agent/mcp/mcp_server.ts";
import { systemClock } from "../core/clock.ts";

/** An argument of the type that a schema names. */
const VALUES: Readonly<Record<string, unknown>> = { number: 5, integer: 5, string: "a", boolean: true };

const { signal } = new AbortController();
const server = {
  name: "suite",
  file: null,
  key: "",
  url: Deno.args.at(-1)!,
  required: true,
  stateless: true,
};
const host = new McpServerHost({ ...server, denied_tools: [], secrets: [] }, {
  clock: systemClock,
  call_timeout_ms: 30_000,
  report: (message) => console.error(message),
});
for (const { name, parameters } of await host.list(signal)) {
  const properties = Object.entries((parameters.properties ?? {}) as Record<string, { type: string }>);
  const attempt = await host.open(signal);
  const args = Object.fromEntries(properties.map(([name, { type }]) => [name, VALUES[type]]));
  console.error(name, await attempt.call({ id: "call_0", name, arguments: args }, signal));
  await attempt.close();
}
await host.close();
