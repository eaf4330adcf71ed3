import assert from "node:assert/strict";
import { parsePlace } from "../routes.ts";
import { comparedIds, compareHref, compareObstacle, MAX_COMPARED, MIN_COMPARED } from "./compare_address.ts";

Deno.test("the page compares as many runs as the server does", async () => {
  const openapi = JSON.parse(await Deno.readTextFile(new URL("../../api/openapi.json", import.meta.url)));
  const { parameters } = openapi.paths["/v1/compare"].get;
  const { schema } = parameters.find(({ name }: { name: string }) => name === "runs");
  assert.deepEqual([MIN_COMPARED, MAX_COMPARED], [schema.minItems, schema.maxItems]);
});

Deno.test("too few and too many runs are told, with how many are missing", () => {
  assert.match(compareObstacle(0)!, /2 to 8/);
  assert.match(compareObstacle(1)!, /one more/);
  assert.match(compareObstacle(9)!, /^9 .* 8/);
  assert.deepEqual([2, 8].map(compareObstacle), [null, null]);
});

Deno.test("an address names the runs, each once, and the view", () => {
  const href = compareHref(["run_1", "run_2"], "scenarios", { scenario: "a/b, c" });
  const place = parsePlace(href);
  assert.deepEqual(place.segments, ["compare", "scenarios"]);
  assert.deepEqual([comparedIds(place), place.query.get("scenario")], [["run_1", "run_2"], "a/b, c"]);
  assert.deepEqual(comparedIds(parsePlace("#/compare?runs=a,,b,a")), ["a", "b"]);
  assert.deepEqual(comparedIds(parsePlace("#/compare")), []);
});
