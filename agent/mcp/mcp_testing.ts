/** Hosts of servers for tests. */

import { ok } from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { expandMcpServer } from "../../config/check/mcp_config.ts";
import type { Clock } from "../../core/clock.ts";
import { WakingClock } from "../../core/clock_fake.ts";
import { McpServerHost } from "./mcp_server.ts";

/** Never aborts. */
export const never = new AbortController().signal;

const PROGRAM = fileURLToPath(new URL("misbehaving_server_fake.ts", import.meta.url));

/** The limit of a call. */
export const CALL_TIMEOUT_MS = 30_000;

/** The command of the server that misbehaves. */
export function misbehavingCommand(mode = "well"): string[] {
  return [Deno.execPath(), "run", "-A", "--no-config", "--no-lock", "--quiet", PROGRAM, mode];
}

export interface TestHostOptions {
  mode?: string;
  name?: string;
  command?: string[];
  url?: string;
  headers?: Record<string, string>;
  env?: Record<string, string>;
  allowed_tools?: string[];
  denied_tools?: string[];
  required?: boolean;
  stateless?: boolean;
  workspaces?: string;
  clock?: Clock;
}

/** A host of tools whose program is gone at the end of the test. */
export interface TestHost extends AsyncDisposable {
  host: McpServerHost;
  messages: string[];
  clock: WakingClock;
}

/** The host of a server. Without a command and an address it is the program that misbehaves. */
export function testHost(options: TestHostOptions = {}): TestHost {
  const { mode, name = "odd", url, env = {}, headers = {}, required = true, stateless = true } = options;
  const manual = new WakingClock(), { clock = manual } = options, messages: string[] = [];
  const place = url === undefined ? { command: options.command ?? misbehavingCommand(mode) } : { url };
  const server = expandMcpServer({
    ...{
      name,
      file: null,
      key: "agent.mcp_servers.0",
      ...place,
      cwd: "/",
      env,
      headers,
      required,
      stateless,
    },
    ...(options.allowed_tools && { allowed_tools: options.allowed_tools }),
    denied_tools: options.denied_tools ?? [],
  }, Deno.env.get);
  const host = new McpServerHost(server, {
    ...{ clock, call_timeout_ms: CALL_TIMEOUT_MS, report: (message) => messages.push(message) },
    workspaces: options.workspaces,
  });
  return { host, messages, clock: manual, [Symbol.asyncDispose]: () => host.close() };
}

/** Options of a test that must leave nothing open. */
export const strict = { sanitizeOps: true, sanitizeResources: true };

/** Defines a test with a host whose server's process must be gone at its end. */
export function hosted(
  name: string,
  options: TestHostOptions & { isDead: (pid: string) => Promise<boolean> },
  body: (tested: TestHost & { pid: string }) => Promise<void>,
) {
  const { isDead } = options;
  Deno.test(name, strict, async () => {
    await using tested = testHost(options);
    await tested.host.list(never);
    const pid = (await callOnce(tested.host, "pid"))!;
    ok(!await isDead(pid));
    await body({ ...tested, pid });
    await tested.host.close();
    ok(await isDead(pid), "the server is gone");
  });
}

/** Calls a tool of a new attempt, and returns the text for the model. */
export async function callOnce(
  host: McpServerHost,
  name: string,
  args: Record<string, unknown> = {},
): Promise<string | null> {
  const attempt = await host.open(never);
  try {
    return (await attempt.call({ id: "call_0", name, arguments: args }, never)).result;
  } finally {
    await attempt.close();
  }
}
