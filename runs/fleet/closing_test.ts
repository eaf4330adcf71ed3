/** What happens to runs that are about to start when the fleet closes. */

import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { TestFleet, untilHanging } from "./fleet_testing.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

async function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return;
  await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

Deno.test("a resume that waits for the device is refused when the fleet closes", strict, async () => {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    const run = await fleet.create({ updates: 1 });
    run.child!.kill();
    await fleet.until(run, "interrupted");
    await fleet.fleet.idle(run.id);
    const { last_seq } = run, loan = fleet.fleet.device.lend("serving");
    const refused = assert.rejects(fleet.fleet.command(run.id, { command: "resume" }), {
      code: "device_unavailable",
      message: "Cannot resume the run: the server ends; try again later",
      details: { retry_after_seconds: 30 },
    });
    await aborted(loan.wanted);
    const closed = fleet.close();
    loan.release();
    await refused;
    await closed;
    assert.deepEqual([run.record.state, run.last_seq], ["interrupted", last_seq]);
  });
});

Deno.test("a new run that waits for the device stays queued for the next server", strict, async () => {
  await withFolder(async (folder) => {
    const first = await TestFleet.open({ folder }), loan = first.fleet.device.lend("serving");
    const created = first.create({ updates: 1 });
    await first.untilTrue(() => first.fleet.list().length === 1);
    const closed = first.close();
    loan.release();
    const { id, record } = await created;
    await closed;
    assert.equal(record.state, "queued");
    const second = await TestFleet.open({ folder });
    await second.until(second.fleet.get(id)!, "completed");
    await second.close();
  });
});

Deno.test("a process that starts while the fleet closes is told to shut down", strict, async () => {
  await withFolder(async (folder) => {
    const fleet = await TestFleet.open({ folder });
    let closed: Promise<void> | null = null;
    fleet.starting = () => void (closed = fleet.close());
    const run = await fleet.create();
    await closed;
    // It trained nothing, and was not killed: then it would have no checkpoint.
    assert.deepEqual([run.record.state, run.progress.update], ["interrupted", 0]);
    assert.deepEqual(await run.checkpoints(), ["update_000000"]);
    assert.deepEqual(fleet.logged, []);
  });
});

for (const [what, evaluates] of [["an evaluation", true], ["rollouts", false]] as const) {
  Deno.test(`a fleet that closes gives up ${what} without an end`, strict, async () => {
    await withFolder(async (folder) => {
      const fleet = await TestFleet.open({ folder });
      // Every attempt of the test's configuration has 64 tokens.
      const gate = `${folder}/gate`, run = await fleet.create({ hang: 64, evaluates, gate });
      await untilHanging(gate);
      await fleet.close();
      assert.deepEqual([run.record.state, run.progress.update], ["interrupted", 0]);
      assert.deepEqual(await run.checkpoints(), ["update_000000"]);
      assert.deepEqual(fleet.logged, []);
    });
  });
}
