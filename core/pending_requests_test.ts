import assert from "node:assert/strict";
import { PendingRequests } from "./pending_requests.ts";

Deno.test("an answer finds its request once, and only by its own number", () => {
  const pending = new PendingRequests<string>();
  assert.deepEqual([pending.add("a"), pending.add("b"), pending.add("c")], [1, 2, 3]);
  assert.deepEqual([pending.get(2), pending.take(2), pending.take(2)], ["b", "b", undefined]);
  for (const id of ["1", null, undefined, 9, "__proto__"]) {
    assert.equal(pending.take(id), undefined, String(id));
  }
  assert.deepEqual([pending.takeAll(), pending.takeAll(), pending.get(1)], [["a", "c"], [], undefined]);
  assert.equal(pending.add("d"), 4);
});
