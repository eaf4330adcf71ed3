import assert from "node:assert/strict";
import type { RunEvent } from "./live_run.ts";
import { MarkList, marksAt } from "./marks.ts";

const event = (kind: string, more: object) =>
  ({ seq: 1, time: "", run: "r", kind, ...more }) as unknown as RunEvent;
const metrics = (update: number) => event("metrics", { update, step: update, values: {} });
const state = (state: string, update: number, checkpoint: string | null = null) =>
  event("state", { state, update, checkpoint, reason: null, detail: null });

Deno.test("checkpoints, learning rates, pauses and continuations are marks after their update", () => {
  const list = new MarkList();
  const events = [
    state("running", 0),
    metrics(1),
    event("command", { command: "set_lr", arguments: { lr: 0.001 }, takes_effect: "boundary" }),
    event("command", { command: "evaluate", arguments: {}, takes_effect: "now" }),
    metrics(2),
    event("checkpoint", { name: "update_000002", update: 2 }),
    state("paused", 2),
    state("starting", 2, "update_000002"),
    state("running", 2, "update_000002"),
    state("interrupted", 2),
  ];
  for (const each of events) list.take(each);
  assert.deepEqual(list.all, [
    { update: 1, text: "learning rate 0.001" },
    { update: 2, text: "checkpoint" },
    { update: 2, text: "paused" },
    { update: 2, text: "continued" },
    { update: 2, text: "interrupted" },
  ]);
});

Deno.test("a place of a chart has the marks of all its updates", () => {
  const marks = [0, 1, 4, 5, 9].map((update) => ({ update, text: `m${update}` }));
  assert.deepEqual(marksAt(marks, [1, 3, 5]), ["m0, m1", null, "m4, m5"]);
  assert.deepEqual(marksAt(marks, []), []);
  assert.deepEqual(marksAt([1, 1].map((update) => ({ update, text: "checkpoint" })), [1]), ["checkpoint"]);
});

Deno.test("the newest thousand marks are kept", () => {
  const list = new MarkList();
  for (let update = 0; update < 1001; update++) list.take(event("checkpoint", { name: "c", update }));
  assert.deepEqual([list.all.length, list.all[0]!.update, list.all.at(-1)!.update], [1000, 1, 1000]);
});
