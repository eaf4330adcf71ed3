import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import type { RunState } from "../../runs/record/run.ts";
import { openDatabase } from "./database.ts";
import { type FleetEvent, FleetEvents, KEPT_EVENTS } from "./fleet_events.ts";

const clock = new ManualClock();
const log = () => {};
const state = (run: string, seq: number, state: RunState) =>
  ({
    kind: "state",
    state,
    seq,
    time: `second ${seq}`,
    run,
    reason: null,
    detail: null,
    update: 0,
    checkpoint: null,
  }) as const;

Deno.test("events are numbered, outlive the server, and numbers are never used again", () =>
  withFolder(async (folder) => {
    const path = `${folder}/index.sqlite`, database = openDatabase(path, { clock, log });
    const events = new FleetEvents(database, clock);
    assert.deepEqual([events.last_seq, events.first_seq], [0, null]);
    events.add({ kind: "created", run: "a", state: "queued" });
    events.add({
      kind: "events",
      run: "a",
      events: [state("a", 1, "queued"), state("a", 2, "running"), state("a", 5, "completed")],
    });
    events.add({ kind: "events", run: "a", events: [] });
    events.add({ kind: "deleted", run: "a", state: "completed" });
    database.close();
    const again = openDatabase(path, { clock, log }), kept = new FleetEvents(again, clock);
    for await (const piece of kept.follow(1, new AbortController().signal)) {
      assert.deepEqual(piece.map(({ seq, kind, run, state }) => [seq, kind, run, state]), [
        [2, "state", "a", "running"],
        [3, "state", "a", "completed"],
        [4, "deleted", "a", "completed"],
      ]);
      break;
    }
    again.run("DELETE FROM fleet_events");
    kept.add({ kind: "created", run: "b", state: "queued" });
    assert.equal(kept.last_seq, 5);
    again.close();
  }));

Deno.test("only the newest events are kept", () => {
  const database = openDatabase(null, { clock, log }), events = new FleetEvents(database, clock);
  events.add({ kind: "created", run: "a", state: "queued" });
  const many = Array.from({ length: KEPT_EVENTS + 4 }, (_, i) => state("a", i + 2, "running"));
  events.add({ kind: "events", run: "a", events: many });
  assert.deepEqual([events.first_seq, events.last_seq], [6, KEPT_EVENTS + 5]);
  database.close();
});

Deno.test("nothing is told twice, nor of a run before its creation or after its end", () => {
  const database = openDatabase(null, { clock, log }), events = new FleetEvents(database, clock);
  const changed = { kind: "events", run: "a", events: [state("a", 2, "starting")] } as const;
  const created = { kind: "created", run: "a", state: "queued" } as const;
  const deleted = { kind: "deleted", run: "a", state: "failed" } as const;
  for (const change of [changed, deleted, created, created, changed, changed]) events.add(change);
  assert.deepEqual(events.published().map((row) => ({ ...row })), [{
    run: "a",
    published_seq: 2,
    state: "starting",
  }]);
  events.add({ ...changed, events: [...changed.events, state("a", 9, "failed")] });
  for (const change of [deleted, deleted, changed]) events.add(change);
  assert.deepEqual(events.published(), []);
  const rows = database.all<FleetEvent>("SELECT seq, time, kind, state FROM fleet_events");
  const now = "2026-01-01T00:00:00.000Z";
  assert.deepEqual(rows.map((row) => Object.values(row)), [
    [1, now, "created", "queued"],
    [2, "second 2", "state", "starting"],
    [3, "second 9", "state", "failed"],
    [4, now, "deleted", "failed"],
  ]);
  database.close();
});

Deno.test("readers of a closed store get what it has, and end", async () => {
  const database = openDatabase(null, { clock, log }), events = new FleetEvents(database, clock);
  const never = new AbortController().signal;
  const waiting = Array.fromAsync(events.follow(0, never));
  events.add({ kind: "created", run: "a", state: "queued" });
  events.close();
  const late = Array.fromAsync(events.follow(0, never));
  for (const pieces of [await waiting, await late]) {
    assert.deepEqual(pieces.flat().map(({ seq }) => seq), [1]);
  }
  assert.deepEqual(await Array.fromAsync(events.follow(1, never)), []);
  database.close();
});

Deno.test("a waiting reader wakes at a new event, and ends with its signal", async () => {
  const database = openDatabase(null, { clock, log }), events = new FleetEvents(database, clock);
  const stop = new AbortController(), seen: string[] = [];
  const reading = (async () => {
    for await (const piece of events.follow(0, stop.signal)) {
      seen.push(...piece.map(({ run }) => run));
      if (seen.length === 2) stop.abort();
    }
  })();
  events.add({ kind: "created", run: "a", state: "queued" });
  await Promise.resolve();
  events.add({ kind: "created", run: "b", state: "queued" });
  await reading;
  assert.deepEqual(seen, ["a", "b"]);
  database.close();
});
