/** A client for @modelcontextprotocol/conformance: lists the tools of the server at its argument, and calls each. */

import { McpServerHost } from "../agent/mcp/mcp_server.ts";
import { systemClock } from "../core/clock.ts";

/** The suite gives up after 30 s, but does not end a client that hangs; and then waits for it. */
const LIMIT_MS = 20_000;
let last_step = "listing the tools";
// Only what is still open keeps the program from ending before.
Deno.unrefTimer(setTimeout(() => {
  console.error(`The client has not ended ${LIMIT_MS / 1000} s after its start: ${last_step}`);
  Deno.exit(1);
}, LIMIT_MS));

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
  last_step = `calling ${name}`;
  const attempt = await host.open(signal);
  const args = Object.fromEntries(properties.map(([name, { type }]) => [name, VALUES[type]]));
  console.error(name, await attempt.call({ id: "call_0", name, arguments: args }, signal));
  await attempt.close();
}
last_step = "closing the host";
await host.close();
last_step = "closed, but something is open";
