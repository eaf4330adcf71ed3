/** The log, the listening address and the traces of a server process. */

import assert from "node:assert/strict";
import { withFolder } from "./folder.ts";
import { serverConfig, ServerProcess } from "./server_process.ts";

const TOKEN = "canary-token-9f31";
const headers = { authorization: `Bearer ${TOKEN}` };
const sanitize = { sanitizeOps: true, sanitizeResources: true };

async function get(
  server: ServerProcess,
  path: string,
  more: Record<string, string> = {},
): Promise<Response> {
  const url = server.url.replace("0.0.0.0", "127.0.0.1");
  const response = await fetch(`${url}${path}`, { headers: { ...headers, ...more } });
  await response.body?.cancel();
  return response;
}

Deno.test(
  "the log has JSON lines from start to stop, with the trace of each request and no token",
  sanitize,
  () =>
    withFolder(async (folder) => {
      const server = await ServerProcess.start({
        config: await serverConfig(folder, `auth_token = "${TOKEN}"`),
      });
      const traces: (string | null)[] = [];
      for (
        const path of ["/v1/health", "/v1/runs/run_a%0Ab?text=secret", `/v1/health?access_token=${TOKEN}`]
      ) {
        traces.push((await get(server, path)).headers.get("x-trace-id"));
      }
      assert.equal(await server.stop(), 0);
      const { lines } = server;
      assert.match(String(lines[0]!.message), /^svc-server listens at http:\/\/127\.0\.0\.1:\d+ /);
      assert.deepEqual(
        lines.slice(1, 4).map(({ level, trace_id, route, path, status }) => ({
          level,
          trace_id,
          route,
          path,
          status,
        })),
        [
          { level: "info", trace_id: traces[0], route: "/v1/health", path: "/v1/health", status: 200 },
          {
            level: "info",
            trace_id: traces[1],
            route: "/v1/runs/{id}",
            path: "/v1/runs/run_a%0Ab",
            status: 404,
          },
          { level: "info", trace_id: traces[2], route: "/v1/health", path: "/v1/health", status: 422 },
        ],
      );
      assert.deepEqual(lines.slice(4).map(({ message }) => message), [
        "svc-server stops: SIGTERM",
        "svc-server has stopped",
      ]);
      for (const line of lines) assert.match(String(line.time), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
      assert.ok(!/canary|secret/.test(JSON.stringify(lines)));
    }),
);

Deno.test(
  "a log that nobody reads, and one whose reader left, hold up no request",
  sanitize,
  () =>
    withFolder(async (folder) => {
      const server = await ServerProcess.start({
        config: await serverConfig(folder, `auth_token = "${TOKEN}"`),
      });
      server.stopReading();
      // About 250 bytes each: many times what a pipe holds.
      for (let i = 0; i < 1000; i++) assert.equal((await get(server, "/v1/health")).status, 200);
      server.keepReading();
      const last = await get(server, "/v1/runs/last");
      await server.line(({ trace_id }) => trace_id === last.headers.get("x-trace-id"));
      assert.equal(server.lines.filter(({ path }) => path === "/v1/health").length, 1000);
      await server.closeLog();
      for (let i = 0; i < 10; i++) assert.equal((await get(server, "/v1/health")).status, 200);
      assert.equal(await server.stop(), 0);
    }),
);

Deno.test("the level leaves out lines", sanitize, () =>
  withFolder(async (folder) => {
    const config = await serverConfig(folder, `auth_token = "${TOKEN}"\n[log]\nlevel = "warning"`);
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", new URL("../main.ts", import.meta.url).pathname, config],
      ...{ stdout: "null", stderr: "piped" },
    }).spawn();
    // It says nothing of its start: its lock and database say that it is there.
    while (!await Deno.stat(`${folder}/svc-data/index.sqlite`).then(() => true, () => false)) {
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    child.kill("SIGTERM");
    const { code, stderr } = await child.output();
    assert.deepEqual([code, new TextDecoder().decode(stderr)], [0, ""]);
  }));

Deno.test(
  "DENO_SERVE_ADDRESS neither moves nor adds a listener",
  sanitize,
  () =>
    withFolder(async (folder) => {
      const [loopback, beyond] = [`127.0.0.1:0`, `0.0.0.0:0`];
      for (const bind of [loopback, beyond]) {
        for (const kind of ["tcp:", "duplicate,tcp:"]) {
          const free = Deno.listen({ hostname: "127.0.0.2", port: 0 }), { port } = free.addr;
          free.close();
          const server = await ServerProcess.start({
            config: await serverConfig(folder, `bind = "${bind}"\nauth_token = "${TOKEN}"`),
            env: { DENO_SERVE_ADDRESS: `${kind}127.0.0.2:${port}` },
          });
          assert.ok(server.url.startsWith(`http://${bind.slice(0, -1)}`), `${server.url} is at ${bind}`);
          assert.equal((await get(server, "/v1/health")).status, 200);
          await assert.rejects(Deno.connect({ hostname: "127.0.0.2", port }), Deno.errors.ConnectionRefused);
          assert.equal(await server.stop(), 0);
        }
      }
    }),
);

/** What a span says, of the names that OTLP's JSON has. */
interface OtlpSpan {
  name: string;
  traceId: string;
  parentSpanId: string;
  kind: number;
  attributes: { key: string; value: { stringValue?: string } }[];
}

/** Receives OTLP over HTTP as a collector does, and keeps the spans. */
function collector() {
  const spans: OtlpSpan[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const body = await request.json();
    if (new URL(request.url).pathname === "/v1/traces") {
      for (const { scopeSpans } of body.resourceSpans) {
        for (const scope of scopeSpans) spans.push(...scope.spans);
      }
    }
    return Response.json({});
  });
  const endpoint = `http://127.0.0.1:${server.addr.port}`;
  return { spans, endpoint, close: () => server.shutdown() };
}

Deno.test("OpenTelemetry gets a span of each request, by its route and with the log's trace_id", () =>
  withFolder(async (folder) => {
    const receiver = collector();
    const env = {
      OTEL_DENO: "true",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint,
      OTEL_SERVICE_NAME: "svc-server",
      OTEL_BSP_SCHEDULE_DELAY: "10",
    };
    const trace = "0af7651916cd43dd8448eb211c80319c", parent = "b7ad6b7169203331";
    for (const bind of ["127.0.0.1:0", "0.0.0.0:0"]) {
      receiver.spans.length = 0;
      const config = await serverConfig(folder, `bind = "${bind}"\nauth_token = "${TOKEN}"`);
      const server = await ServerProcess.start({ config, env });
      const answer = await get(server, "/v1/runs/run_x", { traceparent: `00-${trace}-${parent}-01` });
      const trace_id = answer.headers.get("x-trace-id");
      const own = await get(server, "/v1/health");
      const logged = await server.line(({ route }) => route === "/v1/runs/{id}");
      assert.deepEqual([logged.trace_id, logged.otel_trace_id], [trace_id, trace]);
      assert.notEqual(trace_id, trace);
      while (receiver.spans.length < 2) await new Promise((resolve) => setTimeout(resolve, 5));
      await server.stop();
      const span = (name: string) => receiver.spans.find((span) => span.name === name);
      const named = span("GET /v1/runs/{id}")!, health = span("GET /v1/health")!;
      assert.ok(named && health, `${bind}: ${receiver.spans.map(({ name }) => name)}`);
      // 2: a server's span.
      assert.deepEqual([named.traceId, named.parentSpanId, named.kind], [trace, parent, 2]);
      assert.ok(
        named.attributes.some(({ key, value }) =>
          key === "http.route" && value.stringValue === "/v1/runs/{id}"
        ),
      );
      const idOf = ({ attributes }: OtlpSpan) =>
        attributes.find(({ key }) => key === "svc.trace_id")?.value.stringValue;
      assert.deepEqual([idOf(named), idOf(health)], [trace_id, own.headers.get("x-trace-id")]);
    }
    await receiver.close();
  }));
