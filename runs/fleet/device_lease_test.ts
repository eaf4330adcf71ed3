import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import {
  DEVICE_DIR_ENV,
  type DeviceClaim,
  type DeviceHolder,
  deviceHolders,
  DeviceLock,
  deviceOwner,
} from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { DeviceLease, DRAIN_MS, OTHERS_POLL_MS } from "./device_lease.ts";
import { loggedEvents, openGate, TestFleet, untilWaiting } from "./fleet_testing.ts";
import type { ManagedRun } from "./managed_run.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

function testLease(runs = 1) {
  const clock = new ManualClock(), told = { returned: 0 };
  const strangers: DeviceHolder[] = [], others = () => strangers;
  const lease = new DeviceLease({ runs, clock, returned: () => void told.returned++, others });
  return { clock, told, strangers, lease };
}

/** A process of another program. */
const stranger = (use: DeviceHolder["use"], waits = false): DeviceHolder => ({
  ...{ owner: "x", pid: 4711, use, run: null, device: "GPU", waits },
});

const isBusy = (message: RegExp) => (error: unknown) =>
  error instanceof ServiceError && error.code === "device_unavailable" &&
  error.details.retry_after_seconds === 30 && message.test(error.message);

Deno.test("runs have the device up to their number, and nothing else gets it then", async () => {
  const { lease, told } = testLease(2);
  lease.take("a");
  assert.ok(lease.has("a") && lease.hasSlot());
  for (const borrower of ["probe", "serving"] as const) {
    assert.throws(() => lease.lend(borrower), isBusy(/runs are training/));
  }
  lease.take("b");
  assert.ok(!lease.hasSlot());
  let is_freed = false;
  const freed = lease.freed("a").then(() => is_freed = true);
  await Promise.resolve();
  assert.ok(!is_freed);
  assert.deepEqual([lease.free("a"), lease.free("a"), lease.has("a"), lease.hasSlot()], [
    true,
    false,
    false,
    true,
  ]);
  await freed;
  lease.free("b");
  await lease.allFree();
  assert.equal(told.returned, 0);
  lease.lend("probe").release();
});

Deno.test("a probe keeps runs, serving and other probes out, and nothing takes the device from it", async () => {
  const { lease, clock, told } = testLease(2);
  {
    using loan = lease.lend("probe");
    assert.ok(!lease.hasSlot());
    for (const borrower of ["probe", "serving"] as const) {
      assert.throws(() => lease.lend(borrower), isBusy(/answers another request/));
    }
    await clock.advance(10 * DRAIN_MS);
    assert.ok(!loan.wanted.aborted && !loan.overdue.aborted);
    assert.equal(told.returned, 0);
  }
  assert.equal(told.returned, 1);
  assert.ok(lease.hasSlot());
});

Deno.test("a run takes the device from serving, which has 10 seconds and is then killed", async () => {
  const { lease, clock, told } = testLease();
  const loan = lease.lend("serving");
  assert.throws(() => lease.lend("probe"), isBusy(/serves a model/));
  assert.ok(lease.hasSlot() && !loan.wanted.aborted);
  lease.take("a");
  assert.ok(isBusy(/the run a takes the device/)(loan.wanted.reason));
  let is_ready = false;
  const ready = lease.ready().then(() => is_ready = true);
  await clock.advance(9_999);
  assert.ok(!loan.overdue.aborted);
  await clock.advance(1);
  assert.equal(loan.overdue.reason, loan.wanted.reason);
  assert.ok(!is_ready, "the run starts when the process is gone, not when it is killed");
  loan.release();
  loan.release();
  await ready;
  assert.deepEqual([told.returned, lease.hasSlot(), clock.sleeping], [1, false, 0]);
  await lease.ready();
  lease.free("a");
  assert.ok(lease.hasSlot());
});

Deno.test("serving that ends in time is not killed", async () => {
  const { lease, clock } = testLease(2);
  const loan = lease.lend("serving");
  lease.take("a");
  lease.take("b");
  loan.release();
  await clock.advance(10 * DRAIN_MS);
  assert.ok(!loan.overdue.aborted);
  assert.equal(clock.sleeping, 0);
});

Deno.test("a server that ends lends nothing, and has what is lent given back", async () => {
  const { lease, clock } = testLease();
  const loan = lease.lend("probe");
  lease.close();
  assert.ok(isBusy(/the server ends/)(loan.wanted.reason));
  assert.ok(!lease.hasSlot());
  assert.throws(() => lease.lend("serving"), isBusy(/the server ends/));
  let is_free = false;
  const free = lease.allFree().then(() => is_free = true);
  lease.hurry();
  await Promise.resolve();
  assert.deepEqual([loan.overdue.aborted, is_free, clock.sleeping], [true, false, 0]);
  loan.release();
  await free;
});

Deno.test("what another program has is not lent, and queued runs are told when it is given back", async () => {
  const { lease, clock, told, strangers } = testLease();
  const has = /the process 4711, which trains, has/;
  strangers.push(stranger("run"));
  assert.ok(!lease.hasSlot() && isBusy(has)(lease.noSlotError(true)));
  for (const borrower of ["probe", "serving"] as const) {
    assert.throws(() => lease.lend(borrower), isBusy(has));
  }
  lease.awaitOthers();
  lease.awaitOthers();
  await clock.advance(OTHERS_POLL_MS);
  assert.deepEqual([told.returned, clock.sleeping], [0, 1]);
  strangers.pop();
  await clock.advance(OTHERS_POLL_MS);
  assert.deepEqual([told.returned, clock.sleeping, lease.hasSlot()], [1, 0, true]);
  lease.awaitOthers();
  assert.equal(clock.sleeping, 0);
  strangers.push(stranger("serving"));
  assert.ok(lease.hasSlot(), "a run takes it from a process that serves a model");
  assert.throws(() => lease.lend("serving"), isBusy(/serves a model, has it/));
  strangers.splice(0, 1, stranger("probe"));
  lease.awaitOthers();
  lease.close();
  await clock.advance(OTHERS_POLL_MS);
  assert.deepEqual([told.returned, clock.sleeping], [1, 0]);
});

Deno.test("a run of another program takes the device from serving, and comes first while it waits", async () => {
  const { lease, clock, strangers } = testLease();
  const loan = lease.lend("serving");
  await clock.advance(OTHERS_POLL_MS);
  assert.ok(!loan.wanted.aborted);
  strangers.push(stranger("run", true));
  await clock.advance(OTHERS_POLL_MS);
  assert.ok(isBusy(/the process 4711, which trains, waits for the device/)(loan.wanted.reason));
  await clock.advance(DRAIN_MS);
  assert.ok(loan.overdue.aborted);
  loan.release();
  assert.throws(() => lease.lend("serving"), isBusy(/waits for it/));
  strangers.pop();
  const probe = lease.lend("probe");
  strangers.push(stranger("run", true));
  await clock.advance(10 * OTHERS_POLL_MS);
  assert.ok(!probe.wanted.aborted, "nothing takes it from a probe");
  probe.release();
  assert.equal(clock.sleeping, 0);
});

Deno.test("a fleet's run waits for a probe, and starts when the device is given back", strict, async () => {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder, max_queued: 1 });
    try {
      const loan = fleet.fleet.device.lend("probe");
      assert.ok(!fleet.fleet.device.hasSlot());
      const run = await fleet.create({ updates: 1 });
      assert.equal(run.record.state, "queued");
      await assert.rejects(fleet.create(), isBusy(/every slot is taken/));
      loan.release();
      assert.throws(() => fleet.fleet.device.lend("probe"), isBusy(/runs are training/));
      await fleet.until(run, "completed");
    } finally {
      await fleet.close();
    }
  });
});

Deno.test("a fleet's run has no process before serving has ended", strict, async () => {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    try {
      const { device } = fleet.fleet, loan = device.lend("serving");
      const ready = device.ready.bind(device), asked = Promise.withResolvers<void>();
      device.ready = () => {
        asked.resolve();
        return ready();
      };
      const created = fleet.create({ updates: 1 });
      assert.ok(loan.wanted.aborted);
      await asked.promise;
      const [run] = fleet.fleet.list();
      assert.deepEqual([run!.record.state, run!.child], ["queued", null]);
      loan.release();
      await fleet.until(await created, "completed");
    } finally {
      await fleet.close();
    }
  });
});

Deno.test(
  "a fleet's run waits for another program, and starts when that has given the device back",
  strict,
  () =>
    withFolder(async (folder) => {
      const strangers = [stranger("run")], others = () => strangers, clock = new ManualClock();
      const fleet = await TestFleet.open({ folder, max_queued: 1, clock, others });
      try {
        const run = await fleet.create({ updates: 1 });
        assert.equal(run.record.state, "queued");
        await assert.rejects(
          fleet.create(),
          isBusy(/^Cannot start the run: the process 4711, which trains, has the/),
        );
        strangers.pop();
        await clock.advance(OTHERS_POLL_MS);
        await fleet.until(run, "completed");
      } finally {
        await fleet.close();
      }
    }),
);

Deno.test(
  "what uses a software adapter needs no leave of another program",
  strict,
  () =>
    withFolder(async (folder) => {
      const { lease, strangers, clock } = testLease();
      strangers.push(stranger("run"), stranger("run", true));
      assert.deepEqual([lease.hasSlot(true), lease.hasSlot(false)], [false, true]);
      lease.lend("probe", false).release();
      const loan = lease.lend("serving", false);
      await clock.advance(10 * OTHERS_POLL_MS);
      assert.ok(!loan.wanted.aborted);
      assert.throws(() => lease.lend("probe", false), isBusy(/serves a model/));
      loan.release();
      const others = () => strangers, fleet_clock = new ManualClock();
      const fleet = await TestFleet.open({ folder, max_queued: 1, clock: fleet_clock, others });
      try {
        const first = await fleet.create({ updates: 1 });
        const software = await fleet.create({ updates: 1, device: "software" });
        await fleet.until(software, "completed");
        assert.equal(first.record.state, "queued");
        strangers.splice(0);
        await fleet_clock.advance(OTHERS_POLL_MS);
        await fleet.until(first, "completed");
      } finally {
        await fleet.close();
      }
    }),
);

/** A fleet whose runs lock a GPU, which another program takes when the fleet has just seen that it is free. */
async function withRacingFleet(
  test: (race: { fleet: TestFleet; takeNext: () => void; giveBack: () => Promise<void> }) => Promise<void>,
  max_queued = 1,
): Promise<void> {
  await withFolder(async (root) => {
    const folder = `${root}/devices`, clock = new ManualClock();
    const other: DeviceClaim = { folder, owner: "other", pid: 4711, use: "run", run: null };
    const others = () => deviceHolders({ folder, owner: deviceOwner() });
    Deno.env.set(DEVICE_DIR_ENV, folder);
    const fleet = await TestFleet.open({ folder: root, max_queued, clock, others });
    const { device } = fleet.fleet;
    let lock: DeviceLock | null = null, takes = false;
    device.ready = async () => {
      if (takes) lock = await DeviceLock.take(other, { device: "GPU", webgpu: "deno" });
      takes = false;
    };
    try {
      await test({
        fleet,
        takeNext: () => takes = true,
        async giveBack() {
          while (max_queued > 0 && clock.sleeping === 0) await new Promise((resolve) => setTimeout(resolve));
          lock!.close();
          await clock.advance(OTHERS_POLL_MS);
        },
      });
    } finally {
      await fleet.close();
      Deno.env.delete(DEVICE_DIR_ENV);
    }
  });
}

/** The states and warnings of a run's log, in order. */
async function storyOf(run: ManagedRun): Promise<string[]> {
  return (await loggedEvents(run)).flatMap((event) =>
    event.kind === "state" ? [event.state] : event.kind === "log" ? [event.message] : []
  );
}

const TAKEN = "Cannot use GPU: the process 4711, which trains, has it; wait until that ends";

Deno.test(
  "a new run whose device is taken before its process has it waits in the queue",
  strict,
  () =>
    withRacingFleet(async ({ fleet, takeNext, giveBack }) => {
      takeNext();
      const run = await fleet.create({ updates: 1, gpu: "GPU" });
      await fleet.until(run, "queued");
      await giveBack();
      await fleet.until(run, "completed");
      const story = ["queued", "starting", TAKEN, "queued", "starting", "running", "completed"];
      assert.deepEqual(await storyOf(run), story);
    }),
);

Deno.test(
  "a new run whose device is taken before its process has it is interrupted where no run may wait",
  strict,
  () =>
    withRacingFleet(async ({ fleet, takeNext, giveBack }) => {
      takeNext();
      const run = await fleet.create({ updates: 1, gpu: "GPU" });
      await fleet.fleet.idle(run.id);
      assert.deepEqual(await storyOf(run), ["queued", "starting", TAKEN, "interrupted"]);
      await giveBack();
      await fleet.fleet.command(run.id, { command: "resume" });
      await fleet.until(run, "completed");
    }, 0),
);

Deno.test(
  "a run from the queue whose device is taken goes back to its place, also where no other may wait",
  strict,
  () =>
    withRacingFleet(async ({ fleet, takeNext, giveBack }) => {
      const gate = await Deno.makeTempDir(), first = await fleet.create({ updates: 1, gpu: "GPU", gate });
      await untilWaiting(gate, 1);
      const second = await fleet.create({ updates: 1, gpu: "GPU" }), since = second.service.queued_at;
      assert.notEqual(since, null);
      takeNext();
      await openGate(gate, 1);
      await fleet.until(second, "starting");
      // While it starts, the one place of the queue goes to another run.
      const third = await fleet.create({ updates: 1, gpu: "GPU" });
      await fleet.until(second, "queued");
      assert.equal(second.service.queued_at, since);
      await giveBack();
      await fleet.until(second, "completed");
      await fleet.until(third, "completed");
      const states = ["queued", "starting", TAKEN, "queued", "starting", "running", "completed"];
      assert.deepEqual(await storyOf(second), states);
      assert.equal(first.record.state, "completed");
      await Deno.remove(gate, { recursive: true });
    }),
);

Deno.test(
  "a resumed run whose device is taken before its process has it is interrupted",
  strict,
  () =>
    withRacingFleet(async ({ fleet, takeNext, giveBack }) => {
      const gate = await Deno.makeTempDir(), run = await fleet.create({ updates: 2, gpu: "GPU", gate });
      await openGate(gate, 1);
      await untilWaiting(gate, 2);
      run.child!.kill();
      await fleet.until(run, "interrupted");
      await fleet.fleet.idle(run.id);
      takeNext();
      await fleet.fleet.command(run.id, { command: "resume" });
      await fleet.until(run, "interrupted");
      await fleet.fleet.idle(run.id);
      assert.deepEqual((await storyOf(run)).slice(-3), ["starting", TAKEN, "interrupted"]);
      assert.equal(run.record.error, null);
      // Nobody asked for it to be tried again: it waits when it is resumed.
      await fleet.fleet.command(run.id, { command: "resume" });
      assert.equal(run.record.state, "queued");
      await openGate(gate, 2);
      await giveBack();
      await fleet.until(run, "completed");
      await Deno.remove(gate, { recursive: true });
    }),
);
