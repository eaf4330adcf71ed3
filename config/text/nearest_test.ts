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

Deno.test("a name is proposed at the distances 0, 1 and 2, and not at 3", () => {
  const cases: [string, string | null][] = [
    ["temperature", "temperature"],
    ["tempereture", "temperature"],
    ["tempreture", "temperature"],
    ["tmpreture", null],
    // A character outside of the basic plane is one character.
    ["rank😀😀", "rank"],
    ["rank😀😀😀", null],
    ["r😀nk", "rank"],
    // An accent of its own is a character.
    ["ra\u0301nk", "rank"],
    ["__proto__", null],
    ["", null],
  ];
  for (const [name, near] of cases) assert.equal(nearestName(name, ["temperature", "rank"]), near, name);
});

Deno.test("of a name that is too long no character is read", () => {
  const unread = (length: number) =>
    ({
      length,
      [Symbol.iterator]: () => {
        throw new Error("it is read");
      },
    }) as unknown as string;
  assert.equal(nearestName(unread(10_000), ["temperature"]), null);
  assert.equal(editDistance("rank", unread(10_000), 2), 3);
  // One that could be near is.
  assert.throws(() => nearestName(unread(5), ["rank"]), { message: "it is read" });
});
