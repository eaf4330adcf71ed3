/** The listener on loopback. */

import assert from "node:assert/strict";
import { listenDeno, targetOf } from "./deno_listener.ts";
import { listenerContract } from "./listener_contract.ts";

listenerContract("Deno.serve", listenDeno);

Deno.test("a target is what Deno puts after scheme and authority; a full URL of another host stays one", () => {
  const cases: [url: string, host: string | null, target: string][] = [
    ["http://localhost:1/a/../b?x#y", "localhost:1", "/a/../b?x#y"],
    ["http://a b<>/x", "a b<>", "/x"],
    ["http://localhost:1", "localhost:1", ""],
    ["http://localhost:1//x", "localhost:1", "//x"],
    ["http://localhost:1?x", "localhost:1", "?x"],
    ["http://evil.com/x", "localhost:1", "http://evil.com/x"],
    ["https://localhost:1/x", "localhost:1", "https://localhost:1/x"],
    ["http://user@localhost:1/x", "localhost:1", "http://user@localhost:1/x"],
    ["http://localhost:1/x", null, "/x"],
    ["http://localhost:1/x", "", "/x"],
  ];
  for (const [url, host, target] of cases) assert.equal(targetOf(url, host), target, url);
});
