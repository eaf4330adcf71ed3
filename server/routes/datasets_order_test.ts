/** The order of checks in the routes that read a model with a dataset. */

import assert from "node:assert/strict";
import { refusal } from "../app_testing.ts";
import { type JobApp, withJobApp } from "../jobs_testing.ts";

async function stored({ send }: JobApp, body: string): Promise<string> {
  const headers = { "content-type": "application/x-ndjson" };
  return (await send("/v1/datasets", { method: "POST", body, headers })).json.id;
}

Deno.test("a missing row comes before a form, and a forbidden path before what a dataset holds", () =>
  withJobApp(async (app) => {
    const id = await stored(app, '{"text":"a"}\n{"text":"b"}\n\n'), none = await stored(app, '{"x":1}\n');
    const get = async (path: string) => refusal(await app.send(`/v1/datasets/${path}`));
    const no_row = [404, "not-found", ["/path/n not_found"]];
    for (const query of ["", "?model=/etc/passwd", "?limit=0"]) {
      for (const n of ["3", "999"]) {
        assert.deepEqual(await get(`${id}/rows/${n}/tokens${query}`), no_row, n + query);
      }
    }
    assert.deepEqual(await get(`${id}/rows/2/tokens`), [422, "invalid-request", [
      "/query/model missing_field",
    ]]);
    const forbidden = (pointer: string) => [403, "forbidden-path", [`${pointer} forbidden_path`]];
    assert.deepEqual(await get(`${none}/rows/1/tokens?model=/etc/passwd`), forbidden("/query/model"));
    const tokenize = async (model: string) =>
      refusal(
        await app.send(`/v1/datasets/${none}/tokenize`, {
          method: "POST",
          body: JSON.stringify({ model }),
          headers: { "content-type": "application/json" },
        }),
      );
    assert.deepEqual(await tokenize("/etc/passwd"), forbidden("/model"));
    await Deno.writeTextFile(`${app.root}/x.gguf`, "GGUF");
    const no_kind = [422, "invalid-request", ["/path/id invalid_value"]];
    assert.deepEqual(await tokenize(`${app.root}/x.gguf`), no_kind);
    assert.deepEqual(await get(`${none}/rows/1/tokens?model=${app.root}/x.gguf`), no_kind);
  }));
