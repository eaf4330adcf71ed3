import assert from "node:assert/strict";
import { testApp } from "../app_testing.ts";
import { activeSpan, nameSpan, newTraceId, otelTraceId } from "./trace.ts";

const ID = "0af7651916cd43dd8448eb211c80319c";

const traceOf = (traceparent: string) => otelTraceId({ headers: new Headers({ traceparent }), span: null });

Deno.test("a request belongs to the distributed trace that its caller names", () => {
  // Forms and limits of https://www.w3.org/TR/trace-context/#traceparent-header.
  assert.equal(traceOf(`00-${ID}-b7ad6b7169203331-01`), ID);
  assert.equal(traceOf(`cc-${ID}-b7ad6b7169203331-01-what-the-future-will-be-like`), ID);
  const broken = [
    "",
    ID,
    `00-${ID}-b7ad6b7169203331`,
    `00-${ID}-b7ad6b7169203331-01-more`,
    `ff-${ID}-b7ad6b7169203331-01`,
    `00-${"0".repeat(32)}-b7ad6b7169203331-01`,
    `00-${ID}-${"0".repeat(16)}-01`,
    `00-${ID.toUpperCase()}-b7ad6b7169203331-01`,
    `00-${ID}-b7ad6b7169203331-01, 00-${ID}-b7ad6b7169203331-01`,
  ];
  for (const traceparent of broken) assert.equal(traceOf(traceparent), null, traceparent);
});

Deno.test("every request has a random id of its own, whatever its caller sends", async () => {
  assert.match(newTraceId(), /^[0-9a-f]{32}$/);
  const { send, requests } = testApp(), traceparent = `00-${ID}-b7ad6b7169203331-01`;
  const sent = [];
  for (const headers of [{}, { traceparent }, { traceparent }, { "x-trace-id": ID }]) {
    sent.push((await send("/v1/runs/none", { headers })).json.trace_id);
  }
  assert.equal(new Set([...sent, ID]).size, 5);
  assert.deepEqual(requests.map(({ trace_id }) => trace_id), sent);
  // The log leads from one to the other.
  assert.deepEqual(requests.map(({ otel_trace_id }) => otel_trace_id), [undefined, ID, ID, undefined]);
});

Deno.test("a span tells its trace, and is named by the route", () => {
  assert.equal(activeSpan(), null);
  const told: string[] = [];
  const span = {
    spanContext: () => ({ traceId: ID }),
    updateName: (name: string) => told.push(name),
    setAttribute: (name: string, value: string) => told.push(`${name}=${value}`),
  };
  assert.equal(otelTraceId({ headers: new Headers(), span }), ID);
  nameSpan(span, { method: "GET", route: "/v1/runs/{id}" });
  assert.deepEqual(told, ["GET /v1/runs/{id}", "http.route=/v1/runs/{id}"]);
});
