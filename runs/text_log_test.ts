import assert from "node:assert/strict";
import type { EventData } from "./event.ts";
import { logLine } from "./text_log.ts";

const line = (data: EventData) => logLine({ seq: 1, time: "T", run: "r", ...data });

Deno.test("a line says what happened", () => {
  assert.equal(line({ kind: "log", level: "info", message: "a\nb" }), "T info a\n  b");
  assert.equal(line({ kind: "warning", code: "no_checkpoint", message: "m" }), "T warning no_checkpoint: m");
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
