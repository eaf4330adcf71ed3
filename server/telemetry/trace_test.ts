import assert from "node:assert/strict";
import { activeSpan, nameSpan, traceIdOf } from "./trace.ts";

const ID = "0af7651916cd43dd8448eb211c80319c";

function idFor(traceparent: string): string {
  return traceIdOf({ headers: new Headers({ traceparent }), span: null });
}

Deno.test("a request takes part in the trace that its caller names", () => {
  // Forms and limits of https://www.w3.org/TR/trace-context/#traceparent-header.
  assert.equal(idFor(`00-${ID}-b7ad6b7169203331-01`), ID);
  assert.equal(idFor(`cc-${ID}-b7ad6b7169203331-01-what-the-future-will-be-like`), ID);
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
  for (const traceparent of broken) {
    const given = idFor(traceparent);
    assert.match(given, /^[0-9a-f]{32}$/);
    assert.ok(!traceparent.toLowerCase().includes(given), traceparent);
  }
});

Deno.test("without a trace every request has an id of its own; with a span it has the span's", () => {
  assert.equal(activeSpan(), null);
  assert.notEqual(idFor(""), idFor(""));
  const told: string[] = [];
  const span = {
    spanContext: () => ({ traceId: ID }),
    updateName: (name: string) => told.push(name),
    setAttribute: (name: string, value: string) => told.push(`${name}=${value}`),
  };
  assert.equal(traceIdOf({ headers: new Headers(), span }), ID);
  nameSpan(span, { method: "GET", route: "/v1/runs/{id}" });
  assert.deepEqual(told, ["GET /v1/runs/{id}", "http.route=/v1/runs/{id}"]);
});
