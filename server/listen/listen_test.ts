/** The app behind its listeners. */

import assert from "node:assert/strict";
import { parseServerConfig } from "../../config/server/load.ts";
import { listen } from "./listen.ts";
import { sendRaw } from "./listener_testing.ts";

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
      assert.match(twice, /^HTTP\/1\.1 40[01] /);
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
  name: "beyond loopback the same app has the listener with limits for clients",
  ...sanitize,
  async fn() {
    const config = parseServerConfig(`bind = "0.0.0.0:0"\nauth_token = "t"`, { path: "server.toml" });
    const server = await listen(config, services, { headers_ms: 1 });
    try {
      const address = server.address.replace("0.0.0.0", "127.0.0.1");
      const health = await fetch(`http://${address}/v1/health`, { headers: { authorization: "Bearer t" } });
      assert.equal((await health.json()).status, "ok");
      assert.match(await sendRaw(address, "GET /healthz HTTP/1.1\r\n"), /^HTTP\/1\.1 408 [^]*\r\n\r\n$/);
    } finally {
      await server.close();
    }
  },
});
