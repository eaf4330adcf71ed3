import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { ManualClock } from "../../core/clock_fake.ts";
import { PaceWatch } from "./body_pace.ts";
import { requestOf } from "./node_bridge.ts";

/** A message whose body produces one byte for each read, and counts. */
function message(given: { method: string; url?: string; rawHeaders: string[] }) {
  const made = { bytes: 0 };
  const body = new Readable({
    highWaterMark: 4,
    read() {
      made.bytes++;
      this.push(new Uint8Array(1));
    },
  });
  const headers = Object.fromEntries(
    given.rawHeaders.flatMap((name, i) => i % 2 === 0 ? [[name.toLowerCase(), given.rawHeaders[i + 1]]] : []),
  );
  const socket = { remoteAddress: "127.0.0.1", remotePort: 5 };
  return { made, message: Object.assign(body, { ...given, headers, socket }) as unknown as IncomingMessage };
}

const { signal } = new AbortController();
const pace = new PaceWatch({
  pace: { idle_ms: 1, bytes_per_second: 1 },
  clock: new ManualClock(),
  cut: () => assert.fail("the clock stands still"),
});

Deno.test("a body is read only on demand", async () => {
  const { made, message: sent } = message({ method: "POST", rawHeaders: ["Transfer-Encoding", "chunked"] });
  const { request } = requestOf(sent, { signal, pace });
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  await turn();
  assert.equal(made.bytes, 0);
  const reader = request.body!.getReader();
  for (let i = 1; i <= 20; i++) {
    await reader.read();
    await turn();
    // The stream underneath keeps a few bytes ready.
    assert.ok(made.bytes <= i * 4 + 4, `${made.bytes} bytes were taken for ${i} reads`);
  }
  await reader.cancel();
  assert.ok(!sent.destroyed, "the socket stays for the answer");
});

Deno.test("a message keeps method, target, every Host, and its headers", () => {
  const rawHeaders = ["Host", "a", "HOST", "b", "Origin", "http://x", "Content-Length", "3"];
  const { request, context } = requestOf(
    message({ method: "TRACE", url: "/%zz/..", rawHeaders }).message,
    { signal, pace },
  );
  assert.deepEqual(context, { method: "TRACE", target: "/%zz/..", hosts: ["a", "b"], peer: "127.0.0.1:5" });
  assert.equal(request.headers.get("origin"), "http://x");
  assert.equal(request.body, null);
});

Deno.test("an empty body counts as no body", () => {
  const { request } = requestOf(
    message({ method: "POST", rawHeaders: ["Content-Length", "0"] }).message,
    { signal, pace },
  );
  assert.equal(request.body, null);
});
