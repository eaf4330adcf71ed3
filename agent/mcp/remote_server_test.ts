import { deepEqual, equal, ok, rejects } from "node:assert/strict";
import { MAX_ANSWER_BYTES } from "./guarded_fetch.ts";
import { RESTART_DELAY_MS } from "./mcp_server.ts";
import { STREAM_RETRIES } from "./sdk.ts";
import { LEAVE_TIMEOUT_MS } from "./session.ts";
import { callOnce, never, testHost, type TestHostOptions } from "./mcp_testing.ts";

const SERVER = 'the MCP server "odd"';

/** What a server does with the call of a tool; null: nothing. */
type Answer = (id: number, request: Request) => Response | Promise<Response> | null;

interface Served extends AsyncDisposable {
  url: string;
  /** Methods of the messages, and of requests without one. */
  seen: string[];
  /** The `authorization` of each request. */
  credentials: (string | null)[];
}

const json = (body: object, init?: ResponseInit) => Response.json({ jsonrpc: "2.0", ...body }, init);

/** The text of an event stream. */
const stream = (text: string) => new Response(text, { headers: { "content-type": "text/event-stream" } });

const resultOf = (id: number, text: string) => ({ id, result: { content: [{ type: "text", text }] } });

/**
 * A server by hand, with the tool `act`.
 *
 * @param first Replaces the answer to the handshake.
 * @param left What the end of a session waits for.
 */
function serve(act: Answer, first?: (request: Request) => Response, left?: Promise<void>): Served {
  const seen: string[] = [], credentials: (string | null)[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    credentials.push(request.headers.get("authorization"));
    if (request.method !== "POST") {
      seen.push(request.method);
      if (request.method === "GET") return await act(-1, request) ?? new Response(null, { status: 405 });
      await left;
      return new Response(null, { status: 200 });
    }
    const { id, method } = await request.json();
    seen.push(method);
    if (id === undefined) return new Response(null, { status: 202 });
    if (method === "initialize") {
      const serverInfo = { name: "remote", version: "1" };
      const result = { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo };
      return first?.(request) ?? json({ id, result }, { headers: { "mcp-session-id": "s1" } });
    }
    if (method === "tools/list") {
      return json({ id, result: { tools: [{ name: "act", inputSchema: { type: "object" } }] } });
    }
    return await act(id, request) ?? new Promise<Response>(() => {});
  });
  const url = `http://127.0.0.1:${server.addr.port}/mcp`;
  return { url, seen, credentials, [Symbol.asyncDispose]: () => server.shutdown() };
}

/** A test with a remote server whose tools are listed. */
function remote(
  name: string,
  given: Answer | { act: Answer } & TestHostOptions,
  body: (tested: ReturnType<typeof testHost> & { served: Served }) => Promise<void>,
) {
  Deno.test(name, async () => {
    const { act, ...options } = typeof given === "function" ? { act: given } : given;
    await using served = serve(act);
    await using tested = testHost({ ...options, url: served.url });
    await tested.host.list(never);
    await body({ ...tested, served });
    await tested.host.close();
  });
}

remote("a remote server answers as JSON or as a stream, and its session ends", {
  headers: { authorization: "Bearer canary" },
  act: (id, request) => {
    const text = `${request.headers.get("mcp-session-id")} ${request.headers.get("authorization")}`;
    return id % 2
      ? json(resultOf(id, text))
      : stream(`event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", ...resultOf(id, text) })}\n\n`);
  },
}, async ({ host, served }) => {
  // The header's value is a secret, which the server shows.
  equal(await callOnce(host, "act"), "s1 [key]");
  equal(await callOnce(host, "act"), "s1 [key]");
  equal(served.credentials[0], "Bearer canary");
  await host.close();
  const methods = [
    "initialize",
    "notifications/initialized",
    "tools/list",
    "tools/call",
    "tools/call",
    "DELETE",
  ];
  deepEqual(served.seen, methods);
});

remote(
  "each attempt has a session of its own where calls have side effects",
  { stateless: false, act: (id) => json(resultOf(id, "ok")) },
  async ({ host, served }) => {
    await callOnce(host, "act");
    await callOnce(host, "act");
    equal(served.seen.filter((method) => method === "initialize").length, 3);
    equal(served.seen.filter((method) => method === "DELETE").length, 3);
  },
);

for (const [status, advice] of Object.entries({ 401: true, 403: true, 500: false })) {
  const reason = `it answered with status ${status}${
    advice ? "; give it credentials by headers (OAuth is not supported)" : ""
  }`;
  Deno.test(`a server that answers ${status} cannot be listed`, async () => {
    await using served = serve(() => null, () => new Response("secret words", { status: Number(status) }));
    await using tested = testHost({ url: served.url });
    await rejects(tested.host.list(never), { message: `Cannot list the tools of ${SERVER}: ${reason}` });
  });
  let is_first = true;
  remote(`a call that is answered ${status} fails, and the next has a new session`, (id) => {
    if (!is_first) return json(resultOf(id, "ok"));
    is_first = false;
    return new Response("", { status: Number(status) });
  }, async ({ host, clock, served }) => {
    await rejects(callOnce(host, "act"), {
      code: "tool_failed",
      message: `Cannot call "act" of ${SERVER}: ${reason}`,
    });
    const [result] = await Promise.all([callOnce(host, "act"), clock.wake(RESTART_DELAY_MS)]);
    equal(result, "ok");
    equal(served.seen.filter((method) => method === "initialize").length, 2);
  });
}

Deno.test("a redirect to another origin is not followed, one to the same is", async () => {
  await using other = serve((id) => json(resultOf(id, "other")));
  const { origin } = new URL(other.url);
  const redirect = (location: string) => new Response(null, { status: 307, headers: { location } });
  await using served = serve((id) => json(resultOf(id, "here")), () => redirect(other.url));
  await using tested = testHost({ url: served.url, headers: { authorization: "Bearer canary" } });
  await rejects(tested.host.list(never), {
    message:
      `Cannot list the tools of ${SERVER}: it redirects to ${origin}; give that address as its url if it is ` +
      "the right server",
  });
  deepEqual(other.seen, []);
  let moved = false;
  await using same = serve((id, request) => {
    if (moved) return json(resultOf(id, new URL(request.url).pathname));
    moved = true;
    return redirect("/elsewhere");
  });
  await using follower = testHost({ url: same.url });
  await follower.host.list(never);
  equal(await callOnce(follower.host, "act"), "/elsewhere");
});

Deno.test("a server that is not there is an error", async () => {
  const closed = serve(() => null);
  await closed[Symbol.asyncDispose]();
  await using tested = testHost({ url: closed.url });
  await rejects(tested.host.list(never), {
    code: "environment_failed",
    message: /it cannot be reached: .*refused/i,
  });
});

const half = (id: number) => `event: message\ndata: {"jsonrpc": "2.0", "id": ${id}, "res`;

remote(
  "a stream that ends in the middle of a line fails its call",
  (id) => stream(half(id)),
  async ({ host }) => {
    await rejects(callOnce(host, "act"), {
      code: "tool_failed",
      message: `Cannot call "act" of ${SERVER}: its stream of answers ended without the answer`,
    });
  },
);

remote("a stream with an id is continued behind its last event", (id, request) => {
  if (id >= 0) {
    lost = id;
    return stream(`id: e1\nretry: 10\ndata:\n\n${half(id)}`);
  }
  equal(request.headers.get("last-event-id"), "e1");
  return stream(`data: ${JSON.stringify({ jsonrpc: "2.0", ...resultOf(lost, "late") })}\n\n`);
}, async ({ host, clock }) => {
  const [result] = await Promise.all([callOnce(host, "act"), clock.wake(10)]);
  equal(result, "late");
});
let lost = -1;

remote("a stream that cannot be opened again after STREAM_RETRIES tries fails its call", (id) => {
  return id >= 0 ? stream(`id: e1\ndata:\n\n${half(id)}`) : new Response(null, { status: 503 });
}, async ({ host, clock, served }) => {
  const failing = rejects(callOnce(host, "act"), {
    code: "tool_failed",
    message: `Cannot call "act" of ${SERVER}: its stream of answers ended without the answer`,
  });
  for (let retry = 0; retry < STREAM_RETRIES; retry++) await clock.wake(1000 * 2 ** retry);
  await failing;
  equal(served.seen.filter((method) => method === "GET").length, STREAM_RETRIES);
});

remote("a line that is no message is left out of a stream", (id) => {
  const answer = JSON.stringify({ jsonrpc: "2.0", ...resultOf(id, "ok") });
  return stream(`data: {oops\n\n: a comment\n\ndata: ${answer}\n\n`);
}, async ({ host }) => {
  equal(await callOnce(host, "act"), "ok");
});

const endless = (type: string, piece: string) =>
  new Response(
    new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode(piece));
      },
    }),
    { headers: { "content-type": type } },
  );

remote("an endless body is cut", () => endless("application/json", " ".repeat(1 << 20)), async ({ host }) => {
  await rejects(callOnce(host, "act"), {
    code: "tool_failed",
    message: `Cannot call "act" of ${SERVER}: its answer has more than ${MAX_ANSWER_BYTES} bytes`,
  });
});

remote("an endless stream is cut", () => endless("text/event-stream", `data: ${"x".repeat(1 << 20)}`), async (
  { host },
) => {
  await rejects(callOnce(host, "act"), { code: "tool_failed" });
});

remote(
  "a web page in place of an answer fails its call",
  () => new Response("<html>", { headers: { "content-type": "text/html" } }),
  async ({ host }) => {
    await rejects(callOnce(host, "act"), {
      code: "tool_failed",
      message: /Unexpected content type: text\/html$/,
    });
  },
);

Deno.test("a server that does not end its session is left after LEAVE_TIMEOUT_MS", async () => {
  const never_left = Promise.withResolvers<void>();
  await using served = serve(() => null, undefined, never_left.promise);
  await using tested = testHost({ url: served.url });
  await tested.host.list(never);
  let closed = false;
  const closing = tested.host.close().then(() => closed = true);
  await tested.clock.sleeper(LEAVE_TIMEOUT_MS);
  await tested.clock.advance(LEAVE_TIMEOUT_MS - 1);
  ok(!closed);
  await tested.clock.advance(1);
  await closing;
  never_left.resolve();
});
