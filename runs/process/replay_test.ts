import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { testConfig } from "../config_testing.ts";
import { identityHash } from "../directory/config_identity.ts";
import { recordingTapes } from "../../agent/recording/recorder.ts";
import { type Departures, replayTapes } from "../../agent/recording/replayer.ts";
import { adapterOf, recordOf, startTestRun } from "../../tests/test_run.ts";
import { eventsOf, ofKind, testPrepared, type TestRunOptions, useSft } from "../run_fake.ts";
import { replaySource } from "./replay.ts";

/** Runs a training to its end. */
async function train(options: Omit<TestRunOptions, "newEngine">) {
  await Deno.mkdir(options.root);
  const run = await startTestRun(options), events = await eventsOf(run);
  const evaluations = ofKind(events, "evaluation").map(({ scenarios }) => scenarios);
  const lost = ofKind(events, "update").map(({ lost }) => lost);
  return { state: await run.ended, evaluations, lost };
}

Deno.test("a run and its replay have the same adapter and evaluations", async () => {
  await withFolder(async (root) => {
    const folder = `${root}/recordings`;
    const recorded = await train({ root: `${root}/a`, tapes: recordingTapes(folder) });
    const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name.split(".")[0]).sort();
    const updates = [1, 2, 3].map((update) => `update_00000${update}`);
    assert.deepEqual(names, [...[0, 2, 3].map((after) => `evaluation_00000${after}`), ...updates]);
    const replay = (name: string, departures: Departures, more: Partial<TestRunOptions> = {}) => {
      const verify = () => assert.fail("a replay asks no environment");
      return train({ root: `${root}/${name}`, tapes: replayTapes({ folder, departures }), verify, ...more });
    };
    const again = await replay("b", "end_run");
    assert.deepEqual([again, again.state], [recorded, "completed"]);
    assert.equal(await adapterOf(`${root}/b`), await adapterOf(`${root}/a`));

    // Another policy after the first update says other words.
    const change: TestRunOptions["change"] = (config) => void (config.training.lr *= 100);
    assert.equal((await replay("c", "end_run", { change })).state, "failed");
    const { error } = await recordOf(`${root}/c`);
    assert.match(
      error.detail,
      /^Cannot replay (update|evaluation)_000002, group \d, member \d: it asks .*"name":"say"/,
    );
    const lenient = await replay("d", "fail_attempt", {
      change: (config) => {
        change(config);
        config.agent!.max_dropped_fraction = 1;
        delete config.evaluation;
      },
    });
    assert.equal(lenient.state, "completed");
    assert.deepEqual(lenient.lost[0], {}, "the first update has the same policy");
    assert.ok(lenient.lost[1]!.environment_failed! > 0);

    await Deno.remove(`${folder}/update_000003.jsonl.gz`);
    assert.equal((await replay("e", "end_run")).state, "failed");
    assert.match(
      (await recordOf(`${root}/e`)).error.detail,
      /no recording of it at .*update_000003\.jsonl\.gz/,
    );
  });
});

Deno.test("a departure ends the replay of the same training, and only an attempt of another one", async () => {
  await withFolder(async (root) => {
    const prepared = testPrepared(testConfig(root)), run = `${root}/old`;
    await assert.rejects(replaySource(run, prepared), {
      code: "path_not_found",
      message: /no folder of a run/,
    });
    await Deno.mkdir(`${run}/recordings`, { recursive: true });
    const record = { format_version: 1, id: "run_X", config_hash: identityHash(prepared.identity) };
    await Deno.writeTextFile(`${run}/run.json`, JSON.stringify(record));
    const folder = `${await Deno.realPath(run)}/recordings`;
    assert.deepEqual(await replaySource(run, prepared), { folder, departures: "end_run" });
    prepared.config.run.name = "other";
    assert.deepEqual(await replaySource(run, testPrepared(prepared.config)), {
      folder,
      departures: "end_run",
    });
    prepared.config.training.lr /= 2;
    assert.deepEqual(await replaySource(run, testPrepared(prepared.config)), {
      folder,
      departures: "fail_attempt",
    });
    useSft(prepared.config);
    await assert.rejects(replaySource(run, prepared), { code: "config_invalid", message: /has no rollouts/ });
  });
});
