import assert from "node:assert/strict";
import type { Route } from "./route.ts";
import { ROUTES } from "../route_table.ts";
import { requestUrl, Router, splitTarget } from "./router.ts";

function entry(method: Route["method"], path: string): Route {
  return { method, path, operation: "x", summary: "x", answers: {}, handler: () => ({ status: 204 }) };
}

Deno.test("a target is used as sent: dots, escapes and repeated slashes stay", () => {
  assert.deepEqual(splitTarget("/v1/x/../health?a=1?b#c"), { path: "/v1/x/../health", search: "a=1?b" });
  assert.deepEqual(splitTarget("http://h:1/v1/./%68?q"), { path: "/v1/./%68", search: "q" });
  assert.deepEqual(splitTarget("http://h"), { path: "", search: "" });
  assert.deepEqual(splitTarget("*"), { path: "*", search: "" });
  assert.deepEqual(splitTarget("//evil/v1/health"), { path: "//evil/v1/health", search: "" });
});

Deno.test("every target makes a URL of this host", () => {
  for (const target of ["*", "", "//evil/x", "http://u:p@evil/x", "/%zz?%zz", "/\\\u0001", "evil:80"]) {
    const request = new Request(requestUrl(target));
    assert.equal(new URL(request.url).host, "localhost", target);
  }
});

Deno.test("literal segments are matched as sent, names decoded; segments that clients normalise away do not match", () => {
  const router = new Router(ROUTES);
  assert.deepEqual(router.find("/v1/runs/a%2Fb%20c")?.params, { id: "a/b c" });
  const path = "/v1/runs/r/trajectories/updates/3/groups/g/members/0/tokens";
  assert.deepEqual(router.find(path)?.params, { id: "r", update: "3", group: "g", member: "0" });
  for (
    const other of [
      "/v1/he%61lth",
      "/v1/health/",
      "/v1//health",
      "/V1/health",
      "/v1/runs/..",
      "/v1/runs/%2e%2E/health",
      "/v1/runs/./health",
      "/v1/runs/%zz",
      "/v1/runs/%ff",
      "/v1/runs/",
      "",
    ]
  ) assert.equal(router.find(other), null, other);
});

Deno.test("a literal matches before a name, whatever the order", () => {
  const router = new Router([entry("GET", "/v1/{a}/x"), entry("GET", "/v1/b/{c}"), entry("GET", "/v1/b/x")]);
  const pathOf = (path: string) => router.find(path)?.routes.get("GET")?.path;
  assert.equal(pathOf("/v1/b/x"), "/v1/b/x");
  assert.equal(pathOf("/v1/b/y"), "/v1/b/{c}");
  assert.equal(pathOf("/v1/z/x"), "/v1/{a}/x");
});

Deno.test("Allow has the methods of a path, and HEAD with GET", () => {
  const router = new Router([entry("GET", "/a"), entry("POST", "/a"), entry("DELETE", "/b")]);
  assert.equal(router.find("/a")?.allow, "GET, HEAD, POST, OPTIONS");
  assert.equal(router.find("/b")?.allow, "DELETE, OPTIONS");
});

Deno.test("a method occurs once for a path", () => {
  assert.throws(() => new Router([entry("GET", "/a"), entry("GET", "/a")]), /GET \/a stands once/);
});
