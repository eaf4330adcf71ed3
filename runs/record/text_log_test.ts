import assert from "node:assert/strict";
import type { EventData } from "./event.ts";
import { TEST_UPDATE } from "../events_testing.ts";
import { logLine } from "./text_log.ts";

const line = (data: EventData) => logLine({ seq: 1, time: "T", run: "r", ...data });

Deno.test("a line describes its event", () => {
  assert.equal(line({ kind: "log", level: "info", message: "a\nb" }), "T info a\n  b");
  const warning = { kind: "warning", code: "no_checkpoint", field: "checkpoint", message: "m" } as const;
  assert.equal(line(warning), "T warning no_checkpoint (checkpoint): m");
  const state = {
    kind: "state",
    state: "failed",
    reason: "internal",
    detail: "why",
    update: 3,
    checkpoint: null,
  } as const;
  assert.equal(line(state), "T state failed: why");
  assert.equal(
    line({ ...state, state: "starting", detail: null, checkpoint: "update_000002" }),
    "T state starting from update_000002",
  );
  assert.equal(line({ kind: "metrics", update: 1, step: 1, values: {} }), null);
});

Deno.test("updates have their reward or loss, evaluations their rates", () => {
  assert.equal(line(TEST_UPDATE), "T update 3 of 8: reward 0.5313, loss 0.1, 312 tokens/s");
  assert.equal(
    line({ ...TEST_UPDATE, groups: [], updates: null, reward_mean: null }),
    "T update 3: loss 0.1, 312 tokens/s",
  );
  const evaluation = {
    kind: "evaluation",
    n: 2,
    update: 4,
    scenarios: [],
    rows: null,
    failed: {},
    failure: null,
  } as const;
  assert.equal(
    line({
      ...evaluation,
      scenarios: [],
      pass_rate: { rate: 0.62, low: 0.58, high: 0.66123, n: 32, attempts: 64 },
      reward_mean: 0.7,
      loss: null,
      perplexity: null,
    }),
    "T evaluation 2 after update 4: pass rate 62.0 % (95 % interval 58.0 to 66.1; n = 32 scenarios, 64 attempts), " +
      "reward 0.7",
  );
  const rows = { pass_rate: null, reward_mean: null, loss: 1.23456789, perplexity: 3.4 };
  assert.equal(
    line({ ...evaluation, scenarios: [], ...rows, rows: { n: 20, truncated: 3 } }),
    "T evaluation 2 after update 4: loss 1.235, perplexity 3.4, n = 20 rows, 3 of them cut at training.ctx",
  );
});
