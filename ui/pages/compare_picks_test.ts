import assert from "node:assert/strict";
import { pickOf, withPick } from "./compare_picks.ts";

Deno.test("an address keeps an attempt for each run", () => {
  const one = withPick(null, "run_a", { update: 8, member: 3 });
  const two = withPick(one, "run_b", { update: 6, member: 0 });
  const changed = withPick(two, "run_a", { update: 0, member: 1 });
  assert.deepEqual([one, changed], ["run_a:8.3", "run_a:0.1,run_b:6.0"]);
  assert.deepEqual(pickOf(changed, "run_b"), { update: 6, member: 0 });
  assert.deepEqual([pickOf(changed, "run_c"), pickOf(null, "run_a")], [null, null]);
  assert.deepEqual([pickOf("run_a:x.1,run_b:2.3", "run_a"), pickOf("run_a:1.2x", "run_a")], [null, null]);
});
