import assert from "node:assert/strict";
import { summary, updatesOf } from "./bench_update.ts";

Deno.test("the updates of a run are read from its events", () => {
  const values = { "time/rollout_seconds": 2, "time/train_seconds": 3, "tokens/generated_per_second": 400 };
  const events = [{ kind: "started" }, { kind: "metrics", values }];
  assert.deepEqual(updatesOf(events), [{ rollout_seconds: 2, train_seconds: 3, attempts: 32, tokens: 800 }]);
});

Deno.test("a competitor's line has the means of its updates", () => {
  const update = { rollout_seconds: 1, train_seconds: 2, attempts: 32, tokens: 100 };
  const slower = { rollout_seconds: 3, train_seconds: 6, attempts: 32, tokens: 300 };
  const expected = { seconds: 6, rollout_seconds: 2, train_seconds: 4, tokens: 200, updates: 2 };
  assert.deepEqual(summary([update, slower]), expected);
});
