/** The lists of the table: each takes the cursors of its own pages, and no others. */

import assert from "node:assert/strict";
import { type PopulatedApp, withPopulatedApp } from "./populated_testing.ts";
import { ROUTES } from "./route_table.ts";
import type { Route } from "./routing/route.ts";

const LISTS = ROUTES.filter(({ query }) => query && "cursor" in query.shape);

/** The parameters that a list needs, in which nothing is wrong. */
function needed({ operation }: Route, { root }: PopulatedApp): Record<string, string> {
  return operation === "list_row_tokens" ? { model: `${root}/model.gguf` } : {};
}

function get(list: Route, populated: PopulatedApp, query: Record<string, string>) {
  const search = new URLSearchParams({ ...needed(list, populated), ...query });
  return populated.send(list, `${populated.pathOf(list)}?${search}`, {});
}

Deno.test("every list of the contract is in the table with a cursor", () => {
  const plurals = [
    ...["runs", "datasets", "checkpoints", "evaluations", "rewards", "judges", "mcp_servers", "environments"],
    ...["models", "artifacts", "scenarios", "updates", "groups", "members", "rows", "tokens"],
  ];
  const fields = LISTS.map(({ answers }) =>
    JSON.stringify(answers[200]!.content!["application/json"]!.toJSONSchema({
      io: "input",
    }))
  );
  for (const plural of plurals) {
    assert.ok(fields.some((schema) => schema.includes(`"${plural}":`)), plural);
  }
});

Deno.test("every list refuses a cursor that is not one of its own", () =>
  withPopulatedApp("", async (populated) => {
    await populated.send(ROUTES.find(({ operation }) => operation === "create_dataset")!, "/v1/datasets", {
      ...{ method: "POST", body: '{"text":"b"}\n', headers: { "content-type": "application/x-ndjson" } },
    });
    const cursors: { of: Route; cursor: string }[] = [];
    for (const of of LISTS) {
      const { json } = await get(of, populated, { limit: "1" });
      if (typeof json.next_cursor === "string") cursors.push({ of, cursor: json.next_cursor });
    }
    assert.ok(cursors.length >= 5, String(cursors.length));
    for (const list of LISTS) {
      const foreign = cursors.filter(({ of }) => of !== list).map(({ cursor }) => cursor);
      for (const cursor of ["", "AAAA", "!", ...foreign]) {
        const { status, json } = await get(list, populated, { cursor });
        const found = json.errors?.map(({ pointer, code }: Record<string, string>) => [pointer, code]);
        assert.deepEqual(
          [status, found],
          [422, [["/query/cursor", "invalid_value"]]],
          `${list.path} ${cursor}`,
        );
      }
    }
    for (const { of, cursor } of cursors) {
      assert.equal((await get(of, populated, { cursor })).status, 200, of.path);
    }
  }));
