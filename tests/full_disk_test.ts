/** A full disk costs a run only its current update and a client only its upload, never what is already on disk. */

import assert from "node:assert/strict";
import { ObserveWriter, readIndex } from "../agent/results/observe.ts";
import { testGroup } from "../agent/rollout/group_testing.ts";
import { systemClock } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";
import { checkDataset } from "../runs/datasets/check_dataset.ts";
import { DatasetStore } from "../runs/datasets/dataset_store.ts";
import { loggedEvents, openGate, TestFleet } from "../runs/fleet/fleet_testing.ts";
import { MORE, startTestRun, type TestRunOptions } from "../runs/run_fake.ts";
import { testApp } from "../server/app_testing.ts";
import { openDatabase } from "../server/store/database.ts";
import { keepAnswer } from "../server/store/kept_answers.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";
import { withFolder } from "./folder.ts";
import { adapterOf, recordOf } from "./test_run.ts";

/** Inside the namespace: the mount point of a small disk. */
const DISK = Deno.env.get("SVC_TEST_DISK");
const FILLER = `${DISK}/filler`;

/** Why no disk can be mounted here; null when it can. */
async function obstacle(): Promise<string | null> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return "mounting a small disk needs root on Linux";
  const mount = ["-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"];
  const tried = await new Deno.Command("unshare", { args: mount, stdout: "null", stderr: "null" }).output()
    .catch(() => null);
  return tried?.success ? null : "unshare -m cannot mount a disk here";
}

function fill(): void {
  const piece = new Uint8Array(4096);
  try {
    using file = Deno.openSync(FILLER, { write: true, create: true });
    while (true) file.writeSync(piece);
  } catch { /* it is full */ }
}

const start = (options: Omit<TestRunOptions, "newEngine">) =>
  startTestRun({
    clock: systemClock,
    ...options,
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
  });

/** Fills the disk before the n-th request of a method. */
function fillAt(method: string, n: number): (called: string) => void {
  let count = 0;
  return (called) => {
    if (called === method && ++count === n) fill();
  };
}

const FULL = /^Cannot [^\n]*: no space is left on the disk; free some space/;

/** The message of a run on a full disk, from its end event or its process's error. */
async function failure(options: Omit<TestRunOptions, "newEngine">): Promise<string> {
  const run = await start(options);
  const drained = Array.fromAsync(run.events).catch(() => {});
  const words = await run.ended.then(async (state) => {
    const { error } = await recordOf(options.root);
    assert.equal(state, "failed");
    return error.detail as string;
  }, (error: ServiceError) => {
    assert.ok(error instanceof ServiceError, String(error));
    return error.message;
  });
  await drained;
  return words;
}

if (DISK === undefined) {
  const reason = await obstacle();
  Deno.test({
    name: `a run on a disk that fills up${reason === null ? "" : ` (skipped: ${reason})`}`,
    ignore: reason !== null,
    fn: () =>
      withFolder(async (disk) => {
        const test = [Deno.execPath(), "test", "-A", "--no-check", new URL(import.meta.url).pathname];
        const script = 'mount -t tmpfs -o size=4m none "$SVC_TEST_DISK" && exec "$@"';
        const { success, stdout, stderr } = await new Deno.Command("unshare", {
          args: ["-m", "sh", "-c", script, "sh", ...test],
          env: { SVC_TEST_DISK: disk },
        }).output();
        const text = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("\n");
        assert.ok(success, text);
        assert.match(text, /\b6 passed/);
      }),
  });
} else {
  Deno.test("the run fails with the path and the reason, and continues to the same adapter", () =>
    withFolder(async (elsewhere) => {
      assert.equal(await (await start({ root: elsewhere })).ended, "completed");
      const adapter = await adapterOf(elsewhere);
      for (const [method, n] of [["train_step", 2], ["checkpoint_save", 2], ["adapter_save", 1]] as const) {
        const root: string = `${DISK}/${method}`;
        assert.match(await failure({ root, refuse: fillAt(method, n) }), FULL, method);
        await Deno.remove(FILLER);
        const resumed = await start({ root, start: { mode: "resume" } });
        assert.equal(await resumed.ended, "completed", method);
        assert.equal(await adapterOf(root), adapter, method);
        await Deno.remove(root, { recursive: true });
      }
    }));

  Deno.test("metrics that did not fit are written when the run is resumed", () =>
    withFolder(async (root) => {
      const csv = `${DISK}/metrics.csv`, more = MORE;
      const change: TestRunOptions["change"] = (config) => config.metrics.csv = csv;
      const run = await start({ root, more, change, refuse: fillAt("adapter_save", 1) });
      const message =
        /metrics\.csv: no space is left.*The metrics are in .*events\.jsonl; resume the run with --resume to write/;
      const drained = assert.rejects(Array.fromAsync(run.events), { code: "internal", message });
      await assert.rejects(run.ended, message);
      await drained;
      await assert.rejects(Deno.stat(csv), Deno.errors.NotFound);
      await Deno.remove(FILLER);
      assert.equal(await (await start({ root, more, change, start: { mode: "resume" } })).ended, "completed");
      assert.match(await Deno.readTextFile(csv), /^seq,time,update,step,name,value\n/);
    }));

  Deno.test("an update that did not fit the observe directory is written later", async () => {
    const directory = `${DISK}/trajectories`;
    const options = {
      directory,
      run_name: "test",
      every: 1,
      updates: 2,
      max_text_chars: 0,
      clock: systemClock,
      tokenText: String,
    };
    const writer = await ObserveWriter.open(options);
    const group = () => ({ ...testGroup([{ terminal: 1 }, { terminal: 0 }]), update: 1 });
    await writer.write(1, [group()], { metrics: {} });
    fill();
    await assert.rejects(writer.write(2, [group()], { metrics: {} }), {
      name: "ServiceError",
      message: FULL,
    });
    await Deno.remove(FILLER);
    await (await ObserveWriter.open(options)).write(2, [group()], { metrics: {} });
    const { updates, skipped_lines } = await readIndex(directory);
    assert.deepEqual([updates.map(({ update }) => update), skipped_lines], [[1, 2], 0]);
    await Deno.remove(directory, { recursive: true });
  });

  Deno.test("a dataset that does not fit leaves nothing, whatever is written when the disk is full", async () => {
    const folder = `${DISK}/datasets`, row = '{"text":"a"}\n';
    const upload = (text: string) => ({
      stream: new Blob([text]).stream(),
      kind: "auto" as const,
      signal: new AbortController().signal,
    });
    const check = (request: Parameters<typeof checkDataset>[0]) => checkDataset(request);
    const store = new DatasetStore({ folder, clock: systemClock, check });
    await assert.rejects(store.create(upload(row.repeat(1 << 19))), { name: "ServiceError", message: FULL });
    assert.deepEqual(Array.from(Deno.readDirSync(folder)), []);
    // The bytes fit, but not the card.
    const fillLate = async (request: Parameters<typeof checkDataset>[0]) => {
      const found = await checkDataset(request);
      fill();
      return found;
    };
    const late = new DatasetStore({ folder, clock: systemClock, check: fillLate });
    await assert.rejects(late.create(upload(row)), { name: "ServiceError", message: FULL });
    assert.deepEqual([await late.list(), Array.from(Deno.readDirSync(folder))], [[], []]);
    await Deno.remove(FILLER);
    assert.equal((await store.create(upload(row))).is_new, true);
  });

  Deno.test("the database keeps what it has, refuses what does not fit, and goes on with room", async () => {
    const path = `${DISK}/index.sqlite`,
      open = () => openDatabase(path, { clock: systemClock, log: () => {} });
    let database = open();
    const answer = { body_sha256: "", run: "r", answer: "x".repeat(2000), created_ms: 1 };
    const keys = () => database.all<{ key: string }>("SELECT key FROM kept_answers").map(({ key }) => key);
    const kept: string[] = [];
    const keep = (key: string) => (keepAnswer(database, { key, ...answer }, 1), kept.push(key));
    keep("a");
    fill();
    // The log of the database may have a little room left.
    assert.throws(() => {
      while (true) keep(`b${kept.length}`);
    }, { message: "database or disk is full" });
    assert.deepEqual(keys(), kept);
    await Deno.remove(FILLER);
    keep("c");
    database.close();
    database = open();
    assert.deepEqual(keys(), kept);
    database.close();
    await Deno.remove(path);
  });

  Deno.test("a server refuses what it cannot store, answers the rest, and its run resumes with room", () =>
    withFolder(async (elsewhere) => {
      const folder = `${DISK}/server`, log = () => {}, gate = `${elsewhere}/gate`;
      await Deno.mkdir(folder);
      const database = openDatabase(`${folder}/index.sqlite`, { clock: systemClock, log });
      const test = await TestFleet.open({ folder }), { fleet } = test;
      const toml = `data_dir = ${JSON.stringify(folder)}`;
      const { app, send, logged } = testApp({ toml, fleet, changes: test.relayed, database });
      const run = await test.create({ gate, updates: 3 }), path = `/v1/runs/${run.id}`;
      await openGate(gate, 1);
      await test.untilTraining(run, gate, 2);
      fill();
      const json = { "content-type": "application/json" };
      const rename = () => send(path, { method: "PATCH", headers: json, body: '{"name":"new"}' });
      const upload = () =>
        send("/v1/datasets", {
          ...{ method: "POST", headers: { "content-type": "application/x-ndjson" } },
          body: '{"text":"a"}\n'.repeat(1000),
        });
      const refused = [await rename(), await upload()].map(({ status, json }) => [status, json.errors]);
      assert.deepEqual(refused, [[500, []], [500, []]]);
      for (const { message } of logged.splice(0)) {
        assert.match(String(message), /no space is left on the disk/);
      }
      await openGate(gate, 2, 3);
      // Its process cannot write its end, nor can the server yet.
      while (run.child) await systemClock.sleep(5);
      const found = await send(path);
      assert.deepEqual([found.status, found.json.name], [200, "test"]);
      assert.equal((await send("/v1/runs")).json.runs.length, 1);
      assert.deepEqual((await send("/v1/datasets")).json.datasets, []);
      await Deno.remove(FILLER);
      await test.until(run, "interrupted", "failed");
      await fleet.idle(run.id);
      assert.equal((await rename()).json.name, "new");
      await fleet.command(run.id, { command: "resume" });
      await test.until(run, "completed");
      const trained = (await loggedEvents(run)).filter((event) => event.kind === "update");
      assert.equal(trained.at(-1)!.update, 3);
      await test.close();
      await app.ended;
      const told = database.all<{ state: string }>("SELECT state FROM fleet_events ORDER BY seq");
      assert.equal(told.at(-1)!.state, "completed");
      const names = Array.from(Deno.readDirSync(`${folder}/runs`), ({ name }) => name);
      assert.deepEqual(names, [run.id]);
      database.close();
    }));
}
