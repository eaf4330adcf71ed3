/**
 * The official client of the Model Context Protocol. No other file imports the package, and the package is loaded with
 * the first session only: a run without MCP servers does not pay for it.
 */

import type { Client, Transport as SdkTransport } from "@modelcontextprotocol/client";
import { z } from "zod";
import { describeIssue } from "../../config/check/data_issues.ts";
import { VERSION } from "../../core/version.ts";
import type { Clock } from "../../core/clock.ts";
import { LOST, type Transport } from "./transport.ts";

/** The most pages of a server's list of tools. */
export const MAX_LIST_PAGES = 64;

/** The most tools of a server. */
export const MAX_LISTED_TOOLS = 1024;

/** How often opening a stream of answers again, after it broke, may fail in a row before its request does. */
export const STREAM_RETRIES = 2;

/** The client's own limit of a request, which is none: this program's clock limits requests. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/** A tool as the server lists it. Some servers write null for what they leave out. */
const listedTool = z.object({
  name: z.string(),
  description: z.string().nullish().transform((text) => text ?? undefined),
  inputSchema: z.unknown().optional(),
});

/** A tool as the server lists it; its schema may be anything. */
export type ListedTool = z.output<typeof listedTool>;

/** A page of the list. What else the protocol says of tools and results concerns only other clients. */
const listPage = z.object({ tools: z.array(listedTool), nextCursor: z.string().nullish() });

/** A result whose contents are not checked. */
const anyResult = z.looseObject({});

/** What came of a call: the parts of a result, or the server's refusal of the request. */
export type CallOutcome =
  | { content: readonly unknown[]; structured: unknown; is_error: boolean }
  | { refusal: string };

/** A session with a server after its handshake. */
export interface Connection {
  /** @throws When the server gives no usable answer. */
  list(signal: AbortSignal): Promise<ListedTool[]>;
  /** @throws When the server gives no usable answer. */
  call(call: { name: string; arguments: Record<string, unknown> }, signal: AbortSignal): Promise<CallOutcome>;
}

/**
 * Shakes hands over a transport, which the caller closes.
 *
 * @param on.list_changed The server says that its tools have changed.
 * @param on.closed The transport has closed.
 * @throws When the server gives no usable answer.
 */
export async function connect(
  transport: Transport,
  on: { list_changed: () => void; closed: () => void },
  signal: AbortSignal,
): Promise<Connection> {
  const { Client } = await import("@modelcontextprotocol/client");
  const client = new Client({ name: "svc", version: VERSION }, { jsonSchemaValidator: NO_VALIDATOR });
  client.setNotificationHandler("notifications/tools/list_changed", () => on.list_changed());
  client.onclose = () => on.closed();
  await client.connect(transport as unknown as SdkTransport, { signal, timeout: NO_LIMIT_MS });
  return {
    list: (signal) => listTools(client, signal),
    call: (call, signal) => callTool(client, call, signal),
  };
}

/** The client would check results against schemas of the server, by default with generated code. */
const NO_VALIDATOR = {
  getValidator: () => (data: unknown) => ({ valid: true, data, errorMessage: undefined }),
} as never;

async function listTools(client: Client, signal: AbortSignal): Promise<ListedTool[]> {
  const tools: ListedTool[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_LIST_PAGES; page++) {
    const params = cursor === undefined ? {} : { cursor };
    const options = { signal, timeout: NO_LIMIT_MS };
    const answer = await client.request({ method: "tools/list", params }, anyResult, options);
    const { success, data, error } = listPage.safeParse(answer);
    if (!success) {
      const place = describeIssue(error.issues[0]!, answer);
      throw new Error(`its list of tools has not the form of the protocol: ${place}`);
    }
    tools.push(...data.tools);
    if (tools.length > MAX_LISTED_TOOLS) throw new Error(`it lists more than ${MAX_LISTED_TOOLS} tools`);
    // Some servers end their list with an empty text.
    if (!data.nextCursor) return tools;
    cursor = data.nextCursor;
  }
  throw new Error(`its list of tools has more than ${MAX_LIST_PAGES} pages`);
}

async function callTool(
  client: Client,
  params: { name: string; arguments: Record<string, unknown> },
  signal: AbortSignal,
): Promise<CallOutcome> {
  const { ProtocolError, SdkError, SdkErrorCode } = await import("@modelcontextprotocol/client");
  try {
    const result = await client.request({ method: "tools/call", params }, { signal, timeout: NO_LIMIT_MS });
    const { content, structuredContent, isError } = result as Record<string, unknown>;
    if (!Array.isArray(content ?? [])) throw new Error("its answer has no list of contents");
    return {
      content: (content ?? []) as unknown[],
      structured: structuredContent,
      is_error: isError === true,
    };
  } catch (error) {
    if (error instanceof ProtocolError && error.data !== LOST) return { refusal: error.message };
    if (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult) {
      throw new Error("its answer has not the form of the protocol", { cause: error });
    }
    throw error;
  }
}

/** The streamable HTTP transport. */
export async function httpTransport(
  url: string,
  { headers, fetch, clock }: {
    headers: Readonly<Record<string, string>>;
    fetch: typeof globalThis.fetch;
    clock: Clock;
  },
): Promise<Transport & { terminateSession(): Promise<void> }> {
  const { StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
  return new StreamableHTTPClientTransport(new URL(url), {
    fetch: (input, init) => fetch(input, init),
    requestInit: { headers: { ...headers } },
    reconnectionOptions: {
      initialReconnectionDelay: 1000,
      maxReconnectionDelay: 30_000,
      reconnectionDelayGrowFactor: 2,
      maxRetries: STREAM_RETRIES,
    },
    reconnectionScheduler(reconnect, delay_ms) {
      const stop = new AbortController();
      clock.sleep(delay_ms, stop.signal).then(reconnect, () => {});
      return () => stop.abort();
    },
  }) as unknown as Transport & { terminateSession(): Promise<void> };
}
