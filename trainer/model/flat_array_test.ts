import { deepEqual } from "node:assert/strict";
import { partLengths } from "./flat_array.ts";

Deno.test("a flat array is cut only where it may be, as seldom as the limit allows", () => {
  const cuts = [0, 100, 130, 200];
  deepEqual(partLengths(cuts, 260, 260), [260]);
  deepEqual(partLengths(cuts, 260, 259), [200, 60]);
  deepEqual(partLengths(cuts, 260, 130), [130, 130]);
  deepEqual(partLengths(cuts, 260, 129), [100, 100, 60]);
  // No part can be shorter than the first stretch.
  deepEqual(partLengths(cuts, 260, 64), [100, 30, 70, 60]);
  deepEqual(partLengths([], 0, 64), [0]);
});
