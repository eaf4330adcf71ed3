import assert from "node:assert/strict";
import { z } from "zod";
import { parseServerConfig } from "../../config/server/load.ts";
import { openBody, readBody } from "./body.ts";
import type { BodySpec } from "./route.ts";
import type { Services } from "./services.ts";

const JSON_TYPE = "application/json";

/** Whether other work of the thread runs while a JSON string of this many characters is read. */
async function letsOthersRun(characters: number): Promise<boolean> {
  const spec: BodySpec = { content: { [JSON_TYPE]: z.string() }, limit: "max_body_bytes" };
  const body = JSON.stringify("x".repeat(characters - 2)), headers = { "content-type": JSON_TYPE };
  const request = new Request("http://localhost/", { method: "POST", headers, body });
  const open = openBody(request, spec, parseServerConfig("", { path: "server.toml" }));
  let has_run = false;
  const timer = setTimeout(() => has_run = true);
  const { errors } = await readBody(open, spec, {} as Services);
  clearTimeout(timer);
  assert.deepEqual(errors, []);
  return has_run;
}

Deno.test("a long body is decoded and parsed in two turns, and a short one in one", async () => {
  assert.deepEqual([await letsOthersRun(1 << 20), await letsOthersRun((1 << 20) + 1)], [false, true]);
});
