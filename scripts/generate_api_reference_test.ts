import assert from "node:assert/strict";
import { ROUTES } from "../server/route_table.ts";
import { apiReference } from "./generate_api_reference.ts";

Deno.test("the page has every route, its problems, and what is not built", () => {
  const page = apiReference();
  for (const { method, path } of ROUTES) assert.ok(page.includes(`| ${method} | \`${path}\` |`), path);
  assert.match(page, /\| GET \| `\/v1\/health` \| Version and uptime\. \| unauthorized \(unauthorized\); /);
  for (const { path, method, handler, offReason } of ROUTES) {
    const line = page.split("\n").find((line) => line.startsWith(`| ${method} | \`${path}\` |`))!;
    assert.equal(line.includes("Not in this build."), !handler, path);
    assert.equal(line.includes("not-implemented"), !handler || offReason !== undefined, path);
  }
  assert.ok(page.includes("| `conflict` | 409 |"));
});
