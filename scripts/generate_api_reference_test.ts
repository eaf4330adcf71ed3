import assert from "node:assert/strict";
import { ROUTES } from "../server/route_table.ts";
import { apiReference } from "./generate_api_reference.ts";

Deno.test("the page has every route, and its problems", () => {
  const page = apiReference();
  for (const { method, path } of ROUTES) assert.ok(page.includes(`| ${method} | \`${path}\` |`), path);
  assert.match(page, /\| GET \| `\/v1\/health` \| Version and uptime\. \| unauthorized \(unauthorized\); /);
  for (const { path, method, offReason } of ROUTES) {
    const line = page.split("\n").find((line) => line.startsWith(`| ${method} | \`${path}\` |`))!;
    assert.equal(line.includes("not-implemented"), offReason !== undefined, path);
  }
  assert.ok(page.includes("| `conflict` | 409 |"));
});
