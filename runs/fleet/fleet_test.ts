import assert from "node:assert/strict";
import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { DirectoryLock } from "../directory/directory_lock.ts";
import { listCheckpoints } from "../directory/checkpoint.ts";
import type { RunEvent } from "../record/event.ts";
import { loggedEvents, openGate, TestFleet, withFleet } from "./fleet_testing.ts";
import { ManagedRun } from "./managed_run.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const statesOf = (events: readonly RunEvent[]) =>
  events.flatMap((event) => event.kind === "state" ? [event.state] : []);
const adapterOf = (run: ManagedRun) => Deno.readTextFile(`${run.directory}/adapter.gguf`);
const isRefused = (code: string) => (error: unknown) => error instanceof ServiceError && error.code === code;

/** The adapter of the same run without interruption. */
async function unbrokenAdapter(): Promise<string> {
  let adapter = "";
  await withFleet(async (fleet) => {
    const run = await fleet.create();
    await fleet.until(run, "completed");
    adapter = await adapterOf(run);
  });
  return adapter;
}

Deno.test("a run is created, trains in a process of its own, and ends", strict, async () => {
  await withFleet(async (fleet) => {
    const run = await fleet.create({ updates: 2 });
    assert.equal(run.record.state, "starting");
    await assert.rejects(fleet.create(), isRefused("device_unavailable"));
    await fleet.until(run, "completed");
    const events = await loggedEvents(run);
    assert.deepEqual(statesOf(events), ["queued", "starting", "running", "completed"]);
    assert.deepEqual(events.map(({ seq }) => seq), events.map((_, i) => i + 1));
    assert.equal(events.at(-1)!.kind, "end");
    assert.deepEqual(run.progress, { update: 2, updates: 2, step: 2, eta_seconds: null, phase: null });
    assert.equal(run.last_metrics["reward/mean"], metricOf(events, "reward/mean"));
    assert.ok(run.record.started_at && run.record.ended_at);
    await fleet.fleet.idle(run.id);
    assert.ok(fleet.fleet.device.hasSlot());
    assert.deepEqual(fleet.changes[0], { kind: "created", run: run.id, state: "queued" });
    const told = fleet.changes.flatMap((change) => change.kind === "events" ? change.events : []);
    assert.deepEqual(told, events.slice(1));
  });
});

function metricOf(events: readonly RunEvent[], name: string): number | undefined {
  const all = events.flatMap((event) => event.kind === "metrics" ? [event.values] : []);
  return all.findLast((values) => name in values)?.[name];
}

Deno.test("the newest metrics are those that have a value", strict, () =>
  withFleet(async (fleet) => {
    const run = await fleet.create({ updates: 1 });
    await fleet.until(run, "completed");
    await fleet.fleet.idle(run.id);
    const { seq, time } = (await loggedEvents(run)).at(-1)!, values = { finite: 0.5, infinite: null };
    const event = { seq: seq + 1, time, run: run.id, kind: "metrics", update: 2, step: 2, values };
    await Deno.writeTextFile(run.eventsPath, JSON.stringify(event) + "\n", { append: true });
    const { last_metrics } = await ManagedRun.read(run.directory);
    assert.deepEqual([last_metrics.finite, "infinite" in last_metrics], [0.5, false]);
  }));

Deno.test("without a slot or a place in the queue a run is refused", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`;
    const first = await fleet.create({ gate });
    const second = await fleet.create();
    assert.equal(second.record.state, "queued");
    await assert.rejects(
      fleet.create(),
      (error) =>
        error instanceof ServiceError && error.code === "device_unavailable" &&
        error.details.retry_after_seconds === 30,
    );
    await openGate(gate, 1, 2, 3);
    await fleet.until(first, "completed");
    await fleet.until(second, "completed");
    assert.equal(fleet.fleet.list().map(({ id }) => id).join(), [second.id, first.id].join());
  }, { max_queued: 1 });
});

Deno.test("a paused run has no process, and resumes to the same adapter", strict, async () => {
  const expected = await unbrokenAdapter();
  await withFleet(async (fleet, folder) => {
    const gate = `${folder}/gate`;
    const run = await fleet.create({ gate });
    await fleet.until(run, "running");
    assert.equal(await fleet.fleet.command(run.id, { command: "pause" }), "boundary");
    await openGate(gate, 1);
    await fleet.until(run, "paused");
    const checkpoint = `update_00000${run.progress.update}`;
    await fleet.fleet.idle(run.id);
    assert.equal(run.child, null);
    assert.equal(await fleet.fleet.command(run.id, { command: "checkpoint" }), "now");
    assert.ok((await loggedEvents(run)).every(({ kind }) => kind !== "end"));
    await openGate(gate, 1, 2, 3);
    assert.equal(await fleet.fleet.command(run.id, { command: "resume" }), "now");
    await fleet.until(run, "completed");
    assert.equal(await adapterOf(run), expected);
    const events = await loggedEvents(run);
    assert.deepEqual(events.map(({ seq }) => seq), events.map((_, i) => i + 1));
    const resumed = events.filter((event) => event.kind === "state" && event.checkpoint !== null);
    assert.deepEqual(resumed.map((event) => event.kind === "state" && [event.state, event.checkpoint]), [
      ["starting", checkpoint],
      ["running", checkpoint],
    ]);
  });
});

Deno.test(
  "a killed process leaves an interrupted run, which resumes to the same adapter",
  strict,
  async () => {
    const expected = await unbrokenAdapter();
    await withFleet(async (fleet, folder) => {
      const gate = `${folder}/gate`;
      await openGate(gate, 1);
      const run = await fleet.create({ gate });
      await fleet.untilTrue(() => run.progress.update === 1);
      run.child!.kill();
      await fleet.until(run, "interrupted");
      assert.equal(run.record.error, null);
      await openGate(gate, 2, 3);
      await fleet.fleet.command(run.id, { command: "resume" });
      await fleet.until(run, "completed");
      assert.equal(await adapterOf(run), expected);
    });
  },
);

Deno.test(
  "a fleet that closes interrupts its runs with a checkpoint; the next one finds them",
  strict,
  async () => {
    const expected = await unbrokenAdapter();
    await withFolder(async (folder) => {
      const gate = `${folder}/gate`;
      await openGate(gate, 1);
      const first = await TestFleet.open({ folder, max_queued: 1 });
      const run = await first.create({ gate });
      const waiting = await first.create();
      await first.untilTrue(() => run.progress.update === 1);
      const closed = first.close();
      await openGate(gate, 2);
      await closed;
      assert.equal(run.record.state, "interrupted");
      assert.ok((await listCheckpoints(run.checkpointRoot)).length > 0);
      await openGate(gate, 3);
      const second = await TestFleet.open({ folder, max_queued: 1 });
      try {
        const again = second.fleet.get(run.id)!;
        assert.equal(again.record.state, "interrupted");
        await second.until(second.fleet.get(waiting.id)!, "completed");
        await second.fleet.idle(waiting.id);
        await second.fleet.command(run.id, { command: "resume" });
        await second.until(again, "completed");
        assert.equal(await adapterOf(again), expected);
      } finally {
        await second.close();
      }
    });
  },
);

/** A run that says that it is running, but has no process. */
async function leftRun(folder: string): Promise<ManagedRun> {
  const first = await TestFleet.open({ folder });
  const run = await first.create({ gate: `${folder}/gate` });
  await first.until(run, "running");
  run.child!.kill();
  await first.until(run, "interrupted");
  await first.close();
  const record = { ...run.record, state: "running" };
  await Deno.writeTextFile(`${run.directory}/run.json`, JSON.stringify(record));
  return run;
}

Deno.test("a run is interrupted when another process releases its folder", strict, async () => {
  await withFolder(async (folder) => {
    const run = await leftRun(folder), lock = await DirectoryLock.take(run.directory);
    const second = await TestFleet.open({ folder, orphan_wait_ms: 0 });
    try {
      const held = second.fleet.get(run.id)!;
      assert.ok(!second.fleet.device.hasSlot());
      await assert.rejects(second.fleet.command(run.id, { command: "cancel", at: "now", checkpoint: false }));
      lock.close();
      while (!second.fleet.device.hasSlot()) await systemClock.sleep(10);
      assert.equal(held.record.state, "interrupted");
    } finally {
      await second.close();
    }
  });
});

Deno.test(
  "a server that starts waits for the end of processes that an earlier one left",
  strict,
  async () => {
    await withFolder(async (folder) => {
      const run = await leftRun(folder), lock = await DirectoryLock.take(run.directory);
      let is_held = true;
      const sleep: Clock["sleep"] = (delay_ms, signal) => {
        // It has seen that the folder is held.
        if (is_held) lock.close();
        is_held = false;
        return systemClock.sleep(delay_ms, signal);
      };
      const second = await TestFleet.open({ folder, clock: { ...systemClock, sleep } });
      try {
        assert.deepEqual([is_held, second.fleet.get(run.id)!.record.state], [false, "interrupted"]);
      } finally {
        await second.close();
      }
    });
  },
);

Deno.test("a process that cannot start the run makes it fail with the reason", strict, async () => {
  await withFleet(async (fleet) => {
    const run = await fleet.create({ fatal: "no such model" });
    await fleet.until(run, "failed");
    assert.equal(run.record.state_reason, "internal");
    assert.match(run.record.error!.detail, /no such model/);
    assert.equal((await loggedEvents(run)).at(-1)!.kind, "end");
    await assert.rejects(fleet.fleet.command(run.id, { command: "resume" }), isRefused("conflict"));
  });
});

Deno.test("cancel ends a run in every state", strict, async () => {
  await withFleet(async (fleet, folder) => {
    const { fleet: runs } = fleet, gate = `${folder}/gate`;
    const cancel = { command: "cancel", at: "boundary", checkpoint: false } as const;
    const kill = { command: "cancel", at: "now", checkpoint: false } as const;
    const running = await fleet.create({ gate }), queued = await fleet.create({ gate });
    assert.equal(await runs.command(queued.id, cancel), "now");
    assert.equal(queued.record.state, "cancelled");
    await fleet.untilTraining(running, gate, 1);
    assert.equal(await runs.command(running.id, cancel), "boundary");
    await fleet.until(running, "stopping");
    assert.equal(await runs.command(running.id, kill), "now");
    await fleet.until(running, "cancelled");
    await runs.idle(running.id);
    const starting = await fleet.create({ gate });
    assert.equal(await runs.command(starting.id, cancel), "now");
    await fleet.until(starting, "cancelled");
    for (const run of [queued, running, starting]) {
      assert.equal((await loggedEvents(run)).at(-1)!.kind, "end");
      await assert.rejects(runs.command(run.id, cancel), isRefused("conflict"));
      await runs.delete(run.id);
      assert.equal(runs.get(run.id), null);
    }
    assert.deepEqual([...Deno.readDirSync(`${folder}/runs`)], []);
  }, { max_queued: 1 });
});

Deno.test("a fork starts from its own copy of the checkpoint", strict, async () => {
  await withFleet(async (fleet) => {
    const parent = await fleet.create();
    await fleet.until(parent, "completed");
    await fleet.fleet.idle(parent.id);
    const checkpoint = "update_000002", directory = `${parent.checkpointRoot}/${checkpoint}`;
    const fork = await fleet.create({ updates: 4 }, { parent: { run: parent.id, checkpoint, directory } });
    assert.deepEqual(fork.record.parent, { run: parent.id, checkpoint });
    await fleet.fleet.delete(parent.id);
    await fleet.until(fork, "completed", "failed");
    assert.equal(fork.record.state, "completed", fork.record.error?.detail);
    const updates = (await loggedEvents(fork)).flatMap((event) =>
      event.kind === "update" ? [event.update] : []
    );
    assert.deepEqual(updates, [3, 4]);
  });
});

Deno.test("a damaged run is left out and logged, and unfinished folders are removed", strict, async () => {
  await withFolder(async (folder) => {
    const first = await TestFleet.open({ folder });
    const run = await first.create({ updates: 1 });
    await first.until(run, "completed");
    await first.close();
    await Deno.writeTextFile(`${run.directory}/service.json`, "{");
    await Deno.mkdir(`${folder}/runs/.new_run_1`);
    const second = await TestFleet.open({ folder });
    assert.deepEqual(second.fleet.list(), []);
    assert.match(String(second.logged[0]!.message), /service.json/);
    assert.deepEqual([...Deno.readDirSync(`${folder}/runs`)].map(({ name }) => name), [run.id]);
    await second.close();
  });
});
