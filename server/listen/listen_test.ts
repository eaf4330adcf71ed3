import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { listen } from "./listen.ts";

const services = { probeDevices: () => Promise.resolve([]), log: () => {} };

/** Listens at a free port of loopback while `body` runs. */
async function withServer(toml: string, body: (address: string) => Promise<void>): Promise<void> {
  const config = parseServerConfig(`bind = "127.0.0.1:0"\n${toml}`, { path: "server.toml" });
  const server = await listen(config, services);
  try {
    await body(server.address);
  } finally {
    await server.close();
  }
}

/** Sends raw bytes and returns everything until the server closes the connection. */
async function sendRaw(address: string, text: string): Promise<string> {
  const [hostname, port] = address.split(":");
  using connection = await Deno.connect({ hostname: hostname!, port: Number(port) });
  await connection.write(new TextEncoder().encode(text));
  return await new Response(connection.readable).text();
}

const sanitize = { sanitizeOps: true, sanitizeResources: true };

Deno.test({
  name: "a real listener answers the routes, and stops",
  ...sanitize,
  async fn() {
    await withServer("", async (address) => {
      const health = await fetch(`http://${address}/v1/health`);
      assert.equal(health.status, 200);
      assert.equal((await health.json()).status, "ok");
      const missing = await fetch(`http://${address}/v1/nope`);
      assert.equal(missing.headers.get("content-type"), "application/problem+json");
      assert.equal((await missing.json()).trace_id, missing.headers.get("x-trace-id"));
      const posted = await fetch(`http://${address}/v1/plan`, { method: "POST", body: "x".repeat(1 << 20) });
      assert.equal(posted.status, 415);
      await posted.body?.cancel();
    });
  },
});

Deno.test({
  name: "two Host headers and a target of another host are refused",
  ...sanitize,
  async fn() {
    await withServer("", async (address) => {
      const close = "Connection: close\r\n\r\n";
      const twice = await sendRaw(
        address,
        `GET /v1/health HTTP/1.1\r\nHost: ${address}\r\nHost: ${address}\r\n${close}`,
      );
      assert.match(twice, /^HTTP\/1\.1 401 /);
      const elsewhere = await sendRaw(
        address,
        `GET http://evil.com/v1/health HTTP/1.1\r\nHost: ${address}\r\n${close}`,
      );
      assert.match(elsewhere, /^HTTP\/1\.1 401 /);
      const whole = await sendRaw(
        address,
        `GET http://${address}/v1/health HTTP/1.1\r\nHost: ${address}\r\n${close}`,
      );
      assert.match(whole, /^HTTP\/1\.1 200 /);
      const broken = await sendRaw(address, "BROKEN\r\n\r\n");
      assert.match(broken, /^HTTP\/1\.1 400 /);
    });
  },
});

Deno.test({
  name: "the configuration alone says where the server listens",
  ...sanitize,
  async fn() {
    Deno.env.set("DENO_SERVE_ADDRESS", "tcp:127.0.0.2:0");
    try {
      await withServer("", (address) => {
        assert.match(address, /^127\.0\.0\.1:\d+$/);
        return Promise.resolve();
      });
    } finally {
      // The tests of all files share the process's environment.
      Deno.env.delete("DENO_SERVE_ADDRESS");
    }
  },
});

Deno.test({
  name: "a taken address is named",
  ...sanitize,
  async fn() {
    await withServer("", async (address) => {
      const config = parseServerConfig(`bind = "${address}"`, { path: "server.toml" });
      await assert.rejects(listen(config, services), {
        message: `Cannot listen at ${address}: another program listens there`,
      });
    });
  },
});

Deno.test({
  name: "a connection above the limit is closed, and one that never finishes does not delay the end",
  ...sanitize,
  async fn() {
    const config = parseServerConfig(`bind = "127.0.0.1:0"`, { path: "server.toml" });
    const server = await listen(config, services, { max_connections: 1, close_grace_ms: 20 });
    const [hostname, port] = server.address.split(":");
    using first = await Deno.connect({ hostname: hostname!, port: Number(port) });
    await first.write(new TextEncoder().encode("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const answer = new Uint8Array(1024);
    assert.match(
      new TextDecoder().decode(answer.subarray(0, (await first.read(answer))!)),
      /^HTTP\/1\.1 200 /,
    );
    assert.equal(
      await sendRaw(server.address, "").catch(() => ""),
      "",
      "the second is closed without an answer",
    );
    await first.write(new TextEncoder().encode("GET /healthz HTTP/1.1\r\nHost:"));
    await server.close();
  },
});
