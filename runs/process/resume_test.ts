import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { adapterOf, recordOf, startTestRun } from "../../tests/test_run.ts";
import { CHECKPOINT_FORMAT_VERSION } from "../directory/checkpoint.ts";
import { eventsOf, failAt, heldoutByUpdate, MORE, ofKind } from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

Deno.test("a run is not resumed with another configuration or other data", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 2) })).ended;
    await assert.rejects(
      startTestRun({ root, change: (config) => config.training.lr *= 2, start: { mode: "resume" } }),
      (error: ServiceError) => error.code === "conflict" && /training\.lr/.test(error.message),
    );
    assert.equal((await recordOf(root)).state, "failed");
    await (await startTestRun({ root, start: { mode: "resume" } })).ended;
    assert.equal((await recordOf(root)).state, "completed");
  });
});

Deno.test(
  "a completed run without a checkpoint is not resumed with another configuration either",
  strict,
  async () => {
    await withFolder(async (root) => {
      await (await startTestRun({ root, more: "" })).ended;
      const resumed = (change?: (config: ResolvedConfig) => void) =>
        startTestRun({ root, more: "", start: { mode: "resume" }, ...(change && { change }) });
      await assert.rejects(resumed((config) => config.training.lr *= 2), {
        code: "conflict",
        message: /it is completed, and the configuration or its data changed since; start a new run/,
      });
      assert.equal(await (await resumed()).ended, "completed");
    });
  },
);

Deno.test("a completed run says where the adapter is that output.adapter would choose", strict, async () => {
  await withFolder(async (root) => {
    const heldout = heldoutByUpdate([1, 3, 0]);
    const started = (adapter: "best" | "last", mode: "new" | "resume") =>
      startTestRun({ ...heldout, root, start: { mode }, change: ({ output }) => output.adapter = adapter });
    assert.equal(await (await started("last", "new")).ended, "completed");
    await assert.rejects(started("best", "resume"), {
      code: "conflict",
      message: "Cannot choose the best adapter of a completed run by output.adapter: it is in " +
        `${root}/runs/test/adapter_best.gguf`,
    });
    assert.equal(await (await started("last", "resume")).ended, "completed");
  });
});

Deno.test("a run that failed before its first checkpoint is not resumed", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 1) })).ended;
    await assert.rejects(startTestRun({ root, start: { mode: "resume" } }), /before its first checkpoint/);
  });
});

Deno.test("a damaged checkpoint is named and the one before is used", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 3) })).ended;
    const damaged = `${root}/runs/test/checkpoints/update_000002/adapter.gguf`;
    await Deno.writeTextFile(damaged, (await Deno.readTextFile(damaged)).slice(1));
    const run = await startTestRun({ root, start: { mode: "resume" } });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    assert.match(ofKind(events, "warning")[0]!.message, /update_000002.*adapter\.gguf/);
    assert.equal(ofKind(events, "state")[0]!.checkpoint, "update_000001");
    const whole = `${root}/whole`;
    await (await startTestRun({ root: whole })).ended;
    assert.equal(await adapterOf(root), await adapterOf(whole));
  });
});

Deno.test("a run whose checkpoints are all damaged is not silently restarted", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 3) })).ended;
    const checkpoints = `${root}/runs/test/checkpoints`;
    for await (const { name } of Deno.readDir(checkpoints)) {
      await Deno.writeTextFile(`${checkpoints}/${name}/adapter.gguf`, "torn");
    }
    await assert.rejects(startTestRun({ root, start: { mode: "resume" } }), {
      code: "conflict",
      message: /all of its checkpoints are damaged \(update_000001, update_000002\)/,
    });
    await Deno.remove(`${checkpoints}/update_000002/state.json`);
    await assert.rejects(startTestRun({ root, start: { mode: "resume" } }), { code: "conflict" });
  });
});

Deno.test("a checkpoint of another build does not count as damaged", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 3) })).ended;
    const path = `${root}/runs/test/checkpoints/update_000002/state.json`;
    const { seal: _, ...record } = JSON.parse(await Deno.readTextFile(path));
    const other = { ...record, format_version: 1 };
    const seal = createHash("sha256").update(JSON.stringify(other, null, 1)).digest("hex");
    await Deno.writeTextFile(path, JSON.stringify({ ...other, seal }, null, 1) + "\n");
    await assert.rejects(startTestRun({ root, start: { mode: "resume" } }), {
      code: "conflict",
      message: new RegExp(
        `its format version is 1, this build reads ${CHECKPOINT_FORMAT_VERSION}; go on with the build that wrote it`,
      ),
    });
  });
});

Deno.test(
  "a run that continues from before a damaged checkpoint keeps its own checkpoints",
  strict,
  async () => {
    await withFolder(async (root) => {
      const more = MORE.replace("keep = 100", "keep = 1");
      await (await startTestRun({ root, more: MORE, refuse: failAt("train_step", 3) })).ended;
      const damaged = `${root}/runs/test/checkpoints/update_000002`;
      await Deno.writeTextFile(`${damaged}/adapter.gguf`, "torn");
      await Deno.rename(damaged, `${root}/runs/test/checkpoints/update_000009`);
      const run = await startTestRun({ root, more, start: { mode: "resume" } });
      assert.equal(await run.ended, "completed");
      const names = (await Array.fromAsync(Deno.readDir(`${root}/runs/test/checkpoints`))).map(({ name }) =>
        name
      );
      assert.ok(names.includes("update_000003") && names.includes("update_000009"), names.join());
    });
  },
);
