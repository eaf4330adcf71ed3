/** Runs that lose their device. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { adapterOf, recordOf, startTestRun } from "../../tests/test_run.ts";
import { eventsOf, ofKind } from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

Deno.test("a lost device gives a warning three times, then fails the run", strict, async () => {
  await withFolder(async (root) => {
    const whole = await startTestRun({ root: `${root}/whole` });
    assert.equal(await whole.ended, "completed");
    for (const losses of [1, 3, 4]) {
      const at = `${root}/${losses}`;
      const run = await startTestRun({
        root: at,
        refuse: (method, _, engine) => {
          if (method !== "train_step" || engine > losses) return;
          throw new ServiceError("device_lost", "Cannot train: the device is lost");
        },
      });
      const events = await eventsOf(run);
      const warnings = ofKind(events, "warning").filter((event) => event.code === "device_lost");
      assert.equal(warnings.length, Math.min(losses, 3));
      assert.equal(await run.ended, losses <= 3 ? "completed" : "failed");
      if (losses <= 3) assert.equal(await adapterOf(at), await adapterOf(`${root}/whole`));
      else assert.equal((await recordOf(at)).state_reason, "device_lost");
    }
  });
});

Deno.test("the losses of a device count over all processes of a run", strict, async () => {
  await withFolder(async (root) => {
    /** Trains with a device that is lost this often; the first process then fails for another reason. */
    const train = async (losses: number, mode: "new" | "resume") => {
      let steps = 0;
      const run = await startTestRun({
        root: `${root}/parts`,
        start: { mode },
        refuse: (method, _, engine) => {
          if (method !== "train_step" || mode === "new" && ++steps === 1) return;
          if (engine <= losses) throw new ServiceError("device_lost", "Cannot train: it is lost");
          if (mode === "new") throw new Error("broken on purpose");
        },
      });
      const warnings = ofKind(await eventsOf(run), "warning").filter(({ code }) => code === "device_lost");
      const { state, state_reason } = await recordOf(`${root}/parts`);
      return [state, state_reason, warnings.map(({ message }) => message)];
    };
    const text = (n: number) =>
      `the device was lost after update 1 (Cannot train: it is lost); engine ${n} of 3 replaces it and continues ` +
      "after update 1";
    assert.deepEqual(await train(2, "new"), ["failed", "internal", [text(1), text(2)]]);
    assert.deepEqual(await train(2, "resume"), ["failed", "device_lost", [text(3)]]);
    assert.deepEqual(await train(1, "resume"), ["failed", "device_lost", []]);
    assert.deepEqual(await train(0, "resume"), ["completed", null, []]);
    await (await startTestRun({ root: `${root}/whole` })).ended;
    assert.equal(await adapterOf(`${root}/parts`), await adapterOf(`${root}/whole`));
  });
});

Deno.test("a run whose device another program takes between two engines is interrupted", strict, async () => {
  await withFolder(async (root) => {
    const reason = "Cannot use GPU: the process 4711, which trains, has it";
    const run = await startTestRun({
      root,
      refuse: (method, _, engine) => {
        if (method === "train_step" && engine === 1) {
          throw new ServiceError("device_lost", "Cannot train: it is lost");
        }
        if (method !== "load" || engine === 1) return;
        throw new ServiceError("device_unavailable", reason, { retry_after_seconds: 30 });
      },
    });
    const messages = ofKind(await eventsOf(run), "log").map(({ message }) => message);
    assert.ok(messages.includes(reason), messages.join());
    assert.equal(await run.ended, "interrupted");
    const resumed = await startTestRun({ root, start: { mode: "resume" } });
    assert.equal(await resumed.ended, "completed");
  });
});
