/** The events of all runs, when the server dies between a run's log and these events. */

import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { TestFleet } from "../../runs/fleet/fleet_testing.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import type { FleetChange } from "../../runs/fleet/run_lifecycle.ts";
import { type Database, openDatabase } from "./database.ts";
import { type FleetEvent, FleetEvents } from "./fleet_events.ts";
import { followFleet } from "./follow_fleet.ts";
import { RunIndex } from "./run_index.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const clock = new ManualClock();

/** A server's life: its fleet, and the first changes, after which it is killed; absent: all of them. */
async function live(
  folder: string,
  body: (fleet: TestFleet, database: Database) => Promise<void>,
  changes?: (all: readonly FleetChange[]) => readonly FleetChange[],
): Promise<[string, string, string][]> {
  const logged: Record<string, unknown>[] = [],
    log = (line: Record<string, unknown>) => void logged.push(line);
  const database = openDatabase(`${folder}/index.sqlite`, { clock, log });
  const events = new FleetEvents(database, clock), index = new RunIndex(database);
  const fleet = await TestFleet.open({ folder });
  const options = { fleet: fleet.fleet, events, index, log };
  const following = changes ? null : followFleet({ ...options, changes: fleet.relayed });
  await body(fleet, database);
  await fleet.close();
  if (changes) { for (const change of changes(fleet.changes)) events.add(change); }
  await following;
  const rows = database.all<FleetEvent>("SELECT run, kind, state FROM fleet_events ORDER BY seq");
  database.close();
  assert.deepEqual(logged, []);
  return rows.map(({ run, kind, state }) => [run, kind, state]);
}

const nothing = () => Promise.resolve();

/** A run that has trained to its end. */
async function completed(fleet: TestFleet): Promise<ManagedRun> {
  const run = await fleet.create({ updates: 1 });
  await fleet.until(run, "completed");
  await fleet.fleet.idle(run.id);
  return run;
}

Deno.test("a server that was killed at any moment tells every state once", strict, async () => {
  let changes = 1;
  for (let told = 0; told <= changes; told++) {
    await withFolder(async (folder) => {
      let run = "";
      await live(folder, async (fleet) => {
        run = (await completed(fleet)).id;
        changes = fleet.changes.length;
      }, (all) => all.slice(0, told));
      const expected = [
        [run, "created", "queued"],
        [run, "state", "starting"],
        [run, "state", "running"],
        [run, "state", "completed"],
      ];
      assert.deepEqual(await live(folder, nothing), expected, `after ${told} changes`);
      assert.deepEqual(await live(folder, nothing), expected, "and once only");
    });
  }
});

Deno.test("a run that is gone is told as deleted, and its index is forgotten", strict, async () => {
  await withFolder(async (folder) => {
    let gone = "", kept = "", damaged = "";
    await live(folder, async (fleet, database) => {
      const runs = [await completed(fleet), await completed(fleet), await completed(fleet)];
      [gone, kept, damaged] = runs.map(({ id }) => id) as [string, string, string];
      const index = new RunIndex(database);
      for (const { id, eventsPath: path } of runs) {
        await index.follow({ run: id, path, entryOf: () => null, skips_damaged: true });
      }
      await fleet.fleet.delete(gone);
      await Deno.writeTextFile(`${folder}/runs/${damaged}/service.json`, "{");
    }, (all) => all.filter(({ kind }) => kind !== "deleted"));
    const told = await live(folder, (fleet) => {
      assert.deepEqual(fleet.fleet.list().map(({ id }) => id), [kept]);
      return Promise.resolve();
    });
    const database = openDatabase(`${folder}/index.sqlite`, { clock, log: () => {} });
    const rows = database.all<{ run: string }>("SELECT run FROM logs WHERE run IS NOT NULL ORDER BY run");
    assert.deepEqual(rows.map(({ run }) => run), [kept, damaged]);
    database.close();
    assert.deepEqual(told.filter(([run]) => run === gone).at(-1), [gone, "deleted", "completed"]);
    assert.deepEqual(told.filter(([run, kind]) => run !== gone && kind === "deleted"), []);
  });
});

Deno.test("events do not wait for a deleted run to leave the index", strict, async () => {
  await withFolder(async (folder) => {
    const logged: Record<string, unknown>[] = [],
      log = (line: Record<string, unknown>) => void logged.push(line);
    const database = openDatabase(null, { clock, log }), events = new FleetEvents(database, clock);
    const removing = Promise.withResolvers<void>();
    class Slow extends RunIndex {
      override forget(): Promise<void> {
        return removing.promise;
      }
    }
    const fleet = await TestFleet.open({ folder }), index = new Slow(database);
    const following = followFleet({ fleet: fleet.fleet, changes: fleet.relayed, events, index, log });
    const run = await completed(fleet), ending = new AbortController();
    await fleet.fleet.delete(run.id);
    const next = await fleet.create({ updates: 1 });
    for await (const piece of events.follow(0, ending.signal)) {
      if (piece.some(({ run, state }) => run === next.id && state === "completed")) break;
    }
    removing.resolve();
    await fleet.close();
    await following;
    assert.deepEqual(logged, []);
    database.close();
  });
});

Deno.test("what could not be stored is told before the next change", strict, async () => {
  await withFolder(async (folder) => {
    const logged: Record<string, unknown>[] = [],
      log = (line: Record<string, unknown>) => void logged.push(line);
    const database = openDatabase(null, { clock, log }), index = new RunIndex(database);
    const fleet = await TestFleet.open({ folder });
    let failures = 0;
    class Full extends FleetEvents {
      override add(change: FleetChange): void {
        const is_starting = change.kind === "events" &&
          change.events.some((event) => event.kind === "state" && event.state === "starting");
        if (is_starting && failures++ < 2) throw new Error("database or disk is full");
        super.add(change);
      }
    }
    const events = new Full(database, clock);
    const following = followFleet({ fleet: fleet.fleet, changes: fleet.relayed, events, index, log });
    await completed(fleet);
    await fleet.close();
    await following;
    const states = database.all<FleetEvent>("SELECT state FROM fleet_events ORDER BY seq");
    assert.deepEqual(states.map(({ state }) => state), ["queued", "starting", "running", "completed"]);
    assert.equal(logged.length, 2);
    assert.match(String(logged[0]!.message), /Cannot store the events of runs: .*disk is full/);
    database.close();
  });
});
