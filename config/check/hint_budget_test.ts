import assert from "node:assert/strict";
import { MAX_LISTED_PROBLEMS } from "../text/problems.ts";
import { checkTree } from "./check_tree.ts";

Deno.test("of very many unknown keys only as many as are listed are compared with known ones", () => {
  // Each is one edit away from a section's name.
  const near = Array.from({ length: 1000 }, (_, i) => [`run${String.fromCodePoint(0x4e00 + i)}`, 1]);
  const { findings } = checkTree({ tree: Object.fromEntries(near), floats: new Set() });
  const unknown = findings.filter(({ code }) => code === "unknown_field");
  assert.equal(unknown.length, 1000);
  assert.equal(unknown.filter(({ hint }) => hint !== undefined).length, MAX_LISTED_PROBLEMS);
});
