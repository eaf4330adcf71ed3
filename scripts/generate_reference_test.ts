import assert from "node:assert/strict";
import { configurationReference } from "./generate_reference.ts";

Deno.test("the page has a row for a key with its type, default and meaning", () => {
  const page = configurationReference();
  assert.ok(page.includes("## [[agent.mcp_servers]]\n"));
  assert.ok(page.includes("| `rank` | integer, 1 to 1024 | `8` | Rank of the two factors A and B. |"));
  assert.ok(page.includes("| *run.seed* |"));
  assert.match(page, /\| `path` \| path \| \*\*required\*\* \| The base model/);
  assert.match(page, /\| `sampler_correction` .* Not in this build: `"truncated"`\. \|/);
});
