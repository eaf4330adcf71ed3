import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { lastEvents } from "./log_tail.ts";

const state = (state: string, update: number) => ({ kind: "state", state, update });
const metrics = (update: number, values: Record<string, number>) => ({
  kind: "metrics",
  update,
  step: update,
  values,
});
const update = (n: number) => ({ kind: "update", update: n, updates: 9 });

const lines = (events: object[]) =>
  events.map((event, i) => JSON.stringify({ seq: i + 1, ...event }) + "\n").join("");

async function tailOf(events: object[], rest = "") {
  let tail;
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/events.jsonl`, lines(events) + rest);
    tail = await lastEvents(`${folder}/events.jsonl`);
  });
  return tail!;
}

Deno.test("the tail has the newest events of each kind", async () => {
  const events = [state("running", 0), metrics(1, { a: 1 }), update(1), metrics(2, { a: 2 }), update(2)];
  const evaluated = [...events, metrics(2, { "eval/loss": 3 })];
  const { offset, ...tail } = await tailOf(evaluated, '{"seq":7,"kind":"st');
  assert.equal(offset, lines(evaluated).length);
  assert.deepEqual(tail, {
    seq: 6,
    state: { seq: 1, ...state("running", 0) },
    metrics: { a: 2, "eval/loss": 3 },
    step: 2,
    summary: { seq: 5, ...update(2) },
    end: null,
    update: 2,
  });
});

Deno.test("a run that went back to a checkpoint is as far as that", async () => {
  const tail = await tailOf([state("running", 0), metrics(5, {}), update(5), state("starting", 3)]);
  assert.equal(tail.update, 3);
  const ended = await tailOf([state("completed", 3), { kind: "end", state: "completed" }]);
  assert.deepEqual([ended.end !== null, ended.update], [true, 3]);
});

Deno.test("a long log is read from its end, and a missing one is empty", async () => {
  const long = Array.from({ length: 3000 }, (_, i) => ({ ...update(i), text: "ü".repeat(200) }));
  const all = [state("running", 0), ...long, { kind: "log", message: "x".repeat(700_000) }];
  const tail = await tailOf(all, "{\n"), bytes = new TextEncoder().encode(lines(all)).length;
  assert.deepEqual([tail.seq, tail.update, tail.state?.state], [3002, 2999, "running"]);
  assert.equal(tail.offset, bytes, "a damaged line is not part of it");
  for (const { seq, offset } of [await lastEvents("/nowhere/events.jsonl"), await tailOf([], '{"seq":1')]) {
    assert.deepEqual([seq, offset], [0, 0]);
  }
  assert.equal((await tailOf([update(1)])).offset, lines([update(1)]).length);
});
