/** Commands that runs get before, between and after their processes, and what their logs tell of these. */

import assert from "node:assert/strict";
import { systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { testConfig } from "../config_testing.ts";
import { DirectoryLock } from "../directory/directory_lock.ts";
import { IdleRun } from "../directory/idle_run.ts";
import type { RunEvent } from "../record/event.ts";
import { setLearningRate } from "./commands.ts";
import { loggedEvents, openGate, TestFleet, withFleet } from "./fleet_testing.ts";
import type { ManagedRun } from "./managed_run.ts";
import { kill } from "./run_ends.ts";
import type { RunLifecycle } from "./run_lifecycle.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

/** The states and commands of a log in order, and its end. */
const eventNames = (events: readonly RunEvent[]) =>
  events.flatMap((event) => {
    if (event.kind === "state") return [event.state as string];
    if (event.kind === "end") return ["end"];
    if (event.kind !== "command") return [];
    const args = JSON.stringify(event.arguments);
    return [event.command + (args === "{}" ? "" : ` ${args}`)];
  });
/** The learning rate of each update. */
const ratesOf = (events: readonly RunEvent[]) =>
  events.flatMap((event) => {
    const rate = event.kind === "metrics" ? event.values["optimizer/learning_rate"] : undefined;
    return event.kind === "metrics" && rate !== undefined ? [[event.update, rate]] : [];
  });

Deno.test(
  "a learning rate set while a run has no process takes effect when it trains again",
  strict,
  async () => {
    await withFleet(async (fleet, folder) => {
      const gate = `${folder}/gate`;
      const run = await fleet.create({ gate });
      await fleet.until(run, "running");
      await fleet.fleet.command(run.id, { command: "pause" });
      await openGate(gate, 1);
      await fleet.until(run, "paused");
      const paused_at = run.progress.update;
      await fleet.fleet.command(run.id, { command: "set_lr", lr: 0.5 });
      await fleet.fleet.command(run.id, { command: "resume" });
      await openGate(gate, 2, 3);
      await fleet.until(run, "completed");
      const { training } = testConfig(folder), events = await loggedEvents(run);
      assert.deepEqual(ratesOf(events), [1, 2, 3].map((n) => [n, n <= paused_at ? training.lr : 0.5]));
      assert.deepEqual(eventNames(events).slice(2), [
        "running",
        "pause",
        "pausing",
        "paused",
        'set_lr {"lr":0.5}',
        "resume",
        "starting",
        "starting",
        "running",
        "completed",
        "end",
      ]);
    });
  },
);

Deno.test("a learning rate set before a run trains is that of its first update", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const { fleet: runs } = fleet, gate = `${folder}/gate`;
    const first = await fleet.create({ updates: 1, gate }), queued = await fleet.create({ updates: 1 });
    assert.deepEqual([first.record.state, queued.record.state], ["starting", "queued"]);
    for (const lr of [0.25, 0.5]) {
      assert.equal(await runs.command(first.id, { command: "set_lr", lr }), "boundary");
    }
    assert.equal(await runs.command(queued.id, { command: "set_lr", lr: 0.125 }), "boundary");
    await openGate(gate, 1);
    await fleet.until(queued, "completed");
    const [started, waited] = [await loggedEvents(first), await loggedEvents(queued)];
    assert.deepEqual([ratesOf(started), ratesOf(waited)], [[[1, 0.5]], [[1, 0.125]]]);
    const rates = ['set_lr {"lr":0.25}', 'set_lr {"lr":0.5}'];
    assert.deepEqual(eventNames(started), ["queued", "starting", ...rates, "running", "completed", "end"]);
    assert.deepEqual(eventNames(waited), [
      "queued",
      'set_lr {"lr":0.125}',
      "starting",
      "running",
      "completed",
      "end",
    ]);
  }, { max_queued: 1 });
});

Deno.test("a learning rate outlives the process that started when it was set", strict, async () => {
  await withFleet(async (fleet) => {
    const run = await fleet.create({ updates: 1 });
    await fleet.fleet.command(run.id, { command: "set_lr", lr: 0.5 });
    run.child!.kill();
    await fleet.until(run, "interrupted");
    await fleet.fleet.idle(run.id);
    assert.equal(run.service.unlogged, null);
    await fleet.fleet.command(run.id, { command: "resume" });
    await fleet.until(run, "completed");
    const events = await loggedEvents(run);
    assert.deepEqual(ratesOf(events), [[1, 0.5]]);
    const rate = 'set_lr {"lr":0.5}';
    assert.deepEqual(eventNames(events).slice(0, 6), [
      "queued",
      "starting",
      rate,
      "interrupted",
      "resume",
      "starting",
    ]);
  });
});

Deno.test("a resume that cannot be written is refused, and its slot is free", strict, async () => {
  await withFleet(async (fleet) => {
    const run = await fleet.create({ updates: 1 });
    run.child!.kill();
    await fleet.until(run, "interrupted");
    await fleet.fleet.idle(run.id);
    const before = await loggedEvents(run), lock = await DirectoryLock.take(run.directory);
    await assert.rejects(fleet.fleet.command(run.id, { command: "resume" }), /another process/);
    lock.close();
    assert.deepEqual([run.record.state, fleet.fleet.device.hasSlot()], ["interrupted", true]);
    assert.deepEqual(await loggedEvents(run), before);
    assert.equal(await fleet.fleet.command(run.id, { command: "resume" }), "now");
    await fleet.until(run, "completed");
  });
});

const CANCEL = { command: "cancel", at: "boundary", checkpoint: false } as const;
const KILL = { command: "cancel", at: "now", checkpoint: false } as const;
const LOGGED_CANCEL = 'cancel {"at":"boundary","checkpoint":false}';
const LOGGED_KILL = 'cancel {"at":"now","checkpoint":false}';

Deno.test("the log has every cancel once, before the state that follows", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const { fleet: runs } = fleet, gate = `${folder}/gate`;
    const running = await fleet.create({ gate }), queued = await fleet.create({ gate });
    await runs.command(queued.id, CANCEL);
    assert.deepEqual(eventNames(await loggedEvents(queued)), ["queued", LOGGED_CANCEL, "cancelled", "end"]);
    await fleet.untilTraining(running, gate, 1);
    await runs.command(running.id, CANCEL);
    await fleet.until(running, "stopping");
    await runs.command(running.id, KILL);
    await fleet.until(running, "cancelled");
    assert.deepEqual(eventNames(await loggedEvents(running)).slice(3), [
      LOGGED_CANCEL,
      "stopping",
      LOGGED_KILL,
      "cancelled",
      "end",
    ]);
    await runs.idle(running.id);
    const starting = await fleet.create({ gate });
    await runs.command(starting.id, CANCEL);
    await fleet.until(starting, "cancelled");
    assert.deepEqual(eventNames(await loggedEvents(starting)).slice(2), [
      LOGGED_CANCEL,
      "stopping",
      "cancelled",
      "end",
    ]);
    await runs.idle(starting.id);
    assert.equal(starting.service.killed_for, null);
  }, { max_queued: 1 });
});

Deno.test("commands to a run without a process are in its log", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const { fleet: runs } = fleet, gate = `${folder}/gate`;
    const run = await fleet.create({ gate });
    await fleet.until(run, "running");
    await runs.command(run.id, { command: "pause" });
    await openGate(gate, 1);
    await fleet.until(run, "paused");
    await runs.idle(run.id);
    const before = (await loggedEvents(run)).length;
    const other = await fleet.create({ gate: `${folder}/closed` });
    assert.equal(await runs.command(run.id, { command: "checkpoint" }), "now");
    assert.equal(await runs.command(run.id, { command: "resume" }), "boundary");
    const events = (await loggedEvents(run)).slice(before);
    assert.deepEqual(eventNames(events), ["checkpoint", "resume", "queued"]);
    const effects = events.flatMap((event) => event.kind === "command" ? [event.takes_effect] : []);
    assert.deepEqual(effects, ["now", "boundary"]);
    await runs.command(run.id, CANCEL);
    await runs.command(other.id, KILL);
    await fleet.until(other, "cancelled");
  }, { max_queued: 1 });
});

Deno.test(
  "what was accepted for a process that died with its server is in the log once",
  strict,
  async () => {
    await withFolder(async (folder) => {
      const first = await TestFleet.open({ folder });
      const run = await first.create();
      run.child!.kill();
      await first.until(run, "interrupted");
      await first.close();
      // A process was starting when its server died: of three commands its log has one.
      const idle = await IdleRun.open(run.directory, systemClock);
      await idle.transition("starting");
      const after_seq = (await loggedEvents(run)).at(-1)!.seq;
      idle.append({ kind: "command", command: "set_lr", arguments: { lr: 0.25 }, takes_effect: "boundary" });
      await idle.close();
      const killed_for = { at: "now", checkpoint: false };
      const service = { ...run.service, unlogged: { after_seq, rates: [0.25, 0.5] }, killed_for };
      await Deno.writeTextFile(`${run.directory}/service.json`, JSON.stringify(service));
      const before = run.last_seq;
      const second = await TestFleet.open({ folder });
      const again = second.fleet.get(run.id)!;
      assert.equal(again.record.state, "cancelled");
      const { unlogged, killed_for: left } = again.service;
      assert.deepEqual([unlogged, left], [null, null]);
      assert.deepEqual(eventNames(await loggedEvents(again)).slice(before), [
        "starting",
        'set_lr {"lr":0.25}',
        'set_lr {"lr":0.5}',
        LOGGED_KILL,
        "stopping",
        "cancelled",
        "end",
      ]);
      await second.close();
    });
  },
);

Deno.test(
  "what a server could not clear before it died hides no command of the next process",
  strict,
  async () => {
    await withFolder(async (folder) => {
      const first = await TestFleet.open({ folder });
      const run = await first.create();
      await first.fleet.command(run.id, { command: "set_lr", lr: 0.25 });
      run.child!.kill();
      await first.until(run, "interrupted");
      await first.close();
      // One that the process took while it trained; the server died before it cleared what its log has by now.
      const idle = await IdleRun.open(run.directory, systemClock);
      idle.append({ kind: "command", command: "set_lr", arguments: { lr: 0.125 }, takes_effect: "boundary" });
      await idle.close();
      const service = { ...run.service, unlogged: { after_seq: 0, rates: [0.25] } };
      await Deno.writeTextFile(`${run.directory}/service.json`, JSON.stringify(service));
      const second = await TestFleet.open({ folder });
      const again = second.fleet.get(run.id)!, before = again.last_seq;
      await second.fleet.command(run.id, { command: "resume" });
      await second.fleet.command(run.id, { command: "set_lr", lr: 0.5 });
      again.child!.kill();
      await second.until(again, "interrupted");
      await second.close();
      assert.deepEqual(eventNames(await loggedEvents(again)).slice(before), [
        "resume",
        "starting",
        'set_lr {"lr":0.5}',
        "interrupted",
      ]);
    });
  },
);

Deno.test("a second cancel is accepted while the first one kills the process, and not after another end", async () => {
  const killed = { at: "now", checkpoint: false } as const;
  for (const ends of ["cancelled", "failed"] as const) {
    const run = {
      ...{ record: { state: "starting" }, killed_for: null, change: () => Promise.resolve() },
      child: { kill: () => void (run.record.state = ends) },
    };
    const cancel = () => kill(run as unknown as ManagedRun, killed);
    const first = cancel(), second = cancel();
    assert.equal(await first, "now");
    if (ends === "cancelled") assert.equal(await second, "now");
    else await assert.rejects(second, /Cannot cancel the run: the run is failed/);
  }
});

Deno.test("a run that seems to start and is ending refuses a learning rate", async () => {
  const ending = new ServiceError("conflict", "Cannot set_lr: the run is ending", { is_ending: true });
  for (const begins of ["before the command", "while the rate is stored"] as const) {
    let has_begun = begins === "before the command";
    const changed: unknown[] = [];
    const run = {
      record: { state: "starting" },
      last_seq: 2,
      child: {
        get has_begun() {
          return has_begun;
        },
        command: () => Promise.reject(ending),
      },
      change: (changes: unknown) => {
        has_begun = true;
        changed.push(changes);
        return Promise.resolve();
      },
    } as unknown as ManagedRun;
    await assert.rejects(setLearningRate(run, 0.5, {} as RunLifecycle), ending);
    assert.equal(changed.length, begins === "before the command" ? 0 : 1);
  }
});
