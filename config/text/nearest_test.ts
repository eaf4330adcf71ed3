import assert from "node:assert/strict";
import { editDistance, nearestName } from "./nearest.ts";

Deno.test("edit distances of the literature", () => {
  const cases: [string, string, number][] = [
    ["kitten", "sitting", 3],
    ["saturday", "sunday", 3],
    ["", "abc", 3],
    ["flaw", "lawn", 2],
    ["same", "same", 0],
    ["ab", "ba", 2],
  ];
  for (const [a, b, distance] of cases) {
    assert.equal(editDistance(a, b, 10), distance);
    assert.equal(editDistance(b, a, 10), distance);
    if (distance > 0) assert.equal(editDistance(a, b, distance - 1), distance);
  }
});

Deno.test("a name is proposed up to two edits away, the first of equals", () => {
  assert.equal(nearestName("rnak", ["rank", "alpha"]), "rank");
  assert.equal(nearestName("rk", ["rank"]), "rank");
  assert.equal(nearestName("r", ["rank"]), null);
  assert.equal(nearestName("bat", ["cat", "hat"]), "cat");
  assert.equal(nearestName("hatt", ["cat", "hat"]), "hat");
  assert.equal(nearestName("ränk", ["rank"]), "rank");
});
