/** The line of the log and the counts of every request, through the app. */

import assert from "node:assert/strict";
import { z } from "zod";
import { currentTrace } from "../../core/log.ts";
import { testApp, testRequest } from "../app_testing.ts";
import { ROUTES } from "../route_table.ts";
import { raw, type Route, route } from "../routing/route.ts";

const BYTES = "application/octet-stream";
const TOKEN = "canary-token";

function streams(path: string, body: () => BodyInit | Promise<BodyInit>): Route {
  return route({
    method: "GET",
    path,
    operation: path.slice(1).replaceAll("/", "_"),
    summary: "Bytes.",
    query: z.object({ sig: z.string().optional() }),
    answers: { 200: { description: "Bytes.", content: { [BYTES]: z.string() } } },
    handler: async () => raw(200, BYTES, await body()),
  });
}

function chunks(count: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      if (sent++ === count) controller.close();
      else controller.enqueue(new Uint8Array(10));
    },
  }, { highWaterMark: 0 });
}

Deno.test("a request is one line with its trace, route, status and time, and never its query or token", async () => {
  const slow = streams("/v1/slow/{id}", async () => {
    await clock.advance(1500);
    return "twelve bytes";
  });
  const { send, clock, requests } = testApp({ routes: [...ROUTES, slow], toml: `auth_token = "${TOKEN}"` });
  const headers = { authorization: `Bearer ${TOKEN}` };
  const sent = await send("/v1/slow/%0Aname?sig=signature", { headers });
  assert.deepEqual(requests, [{
    level: "info",
    trace_id: sent.headers["x-trace-id"],
    message: "request",
    method: "GET",
    path: "/v1/slow/%0Aname",
    route: "/v1/slow/{id}",
    status: 200,
    ended: "complete",
    duration_ms: 1500,
    bytes: 12,
    peer: "127.0.0.1:1",
  }]);
  const refused = await send(`http://user:secret@localhost:8471/v1/health`);
  assert.deepEqual(
    [requests[1]!.trace_id, requests[1]!.path, requests[1]!.route, requests[1]!.status],
    [refused.json.trace_id, "/v1/health", "/v1/health", 401],
  );
  await send(`/v1/${"x".repeat(5000)}`, { headers });
  assert.deepEqual([requests[2]!.path, requests[2]!.route], [`/v1/${"x".repeat(1020)}…`, null]);
  await send("/v1/health", { method: "HEAD", headers });
  assert.deepEqual([requests[3]!.method, requests[3]!.bytes], ["HEAD", 0]);
  const text = JSON.stringify(requests);
  for (const secret of [TOKEN, "signature", "secret"]) assert.ok(!text.includes(secret), secret);
});

Deno.test("the line of a stream comes at its end, and says how that was", async () => {
  let failing = false;
  const body = () => {
    if (failing) return new ReadableStream({ pull: () => Promise.reject(new Error("the file is gone")) });
    return chunks(3);
  };
  const { app, requests } = testApp({ routes: [streams("/v1/stream", body)] });
  const open = () => app.handle(...testRequest("/v1/stream"));
  const whole = await open();
  assert.deepEqual(requests, []);
  assert.equal((await whole.bytes()).length, 30);
  const left = (await open()).body!.getReader();
  await left.read();
  await left.cancel();
  failing = true;
  await assert.rejects((await open()).bytes(), { message: "the file is gone" });
  assert.deepEqual(
    requests.map(({ level, status, bytes, ended }) => [level, status, bytes, ended]),
    [["info", 200, 30, "complete"], ["info", 200, 10, "disconnected"], ["error", 200, 0, "failed"]],
  );
});

Deno.test("a client that leaves before its answer counts as 499, and a failure of ours is an error", async () => {
  const leave = new AbortController();
  const waits = streams("/v1/waits", () => {
    leave.abort();
    return Promise.reject(leave.signal.reason);
  });
  const fails = streams("/v1/fails", () => Promise.reject(new Error("broken")));
  const { app, requests } = testApp({ routes: [waits, fails] });
  await app.handle(...testRequest("/v1/waits", { signal: leave.signal }));
  await app.handle(...testRequest("/v1/fails"));
  assert.deepEqual(requests.map(({ level, status, ended }) => [level, status, ended]), [
    ["info", 499, "disconnected"],
    ["error", 500, "complete"],
  ]);
});

Deno.test("all code of a request knows its trace", async () => {
  const seen: (string | null)[] = [];
  const deep = streams("/v1/deep", async () => {
    await new Promise((resolve) => setImmediate(resolve));
    seen.push(currentTrace());
    return "";
  });
  const { send } = testApp({ routes: [deep] });
  const sent = await Promise.all([send("/v1/deep"), send("/v1/deep")]);
  assert.deepEqual(seen.sort(), sent.map(({ headers }) => headers["x-trace-id"]).sort());
  assert.notEqual(seen[0], seen[1]);
});
