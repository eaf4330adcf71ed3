import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { openDatabase } from "./database.ts";
import { FleetEvents, KEPT_EVENTS } from "./fleet_events.ts";

const clock = new ManualClock();
const log = () => {};
const state = (run: string, state: "running" | "completed") =>
  ({
    kind: "state",
    state,
    seq: 1,
    time: "",
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
    events.add({ kind: "events", run: "a", events: [state("a", "running"), state("a", "completed")] });
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
  const many = Array.from({ length: KEPT_EVENTS + 5 }, () => state("a", "running"));
  events.add({ kind: "events", run: "a", events: many });
  assert.deepEqual([events.first_seq, events.last_seq], [6, KEPT_EVENTS + 5]);
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
