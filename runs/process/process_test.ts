import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { adapterOf, recordOf, startTestRun } from "../../tests/test_run.ts";
import type { PlanWarning } from "../record/warning.ts";
import type { RunEvent } from "../record/event.ts";
import { RunDirectory } from "../directory/run_directory.ts";
import { readEvents } from "../record/event_log.ts";
import { copyFolder, eventsOf, failAt, MORE, ofKind, testPipe, usePreference, useSft } from "../run_fake.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const states = (events: RunEvent[]) => ofKind(events, "state").map((event) => event.state);

Deno.test("a run trains to its end and writes all its files", strict, async () => {
  await withFolder(async (root) => {
    const run = await startTestRun({ root });
    const events = await eventsOf(run);
    assert.equal(await run.ended, "completed");
    assert.deepEqual(states(events), ["starting", "running", "completed"]);
    assert.deepEqual(events.map((event) => event.seq), events.map((_, i) => i + 1));
    assert.deepEqual(ofKind(events, "update").map((event) => [event.update, event.updates]), [
      [1, 3],
      [2, 3],
      [3, 3],
    ]);
    assert.deepEqual(ofKind(events, "evaluation").map((event) => [event.n, event.update]), [[1, 0], [2, 2], [
      3,
      3,
    ]]);
    assert.deepEqual(ofKind(events, "checkpoint").map((event) => event.name), [
      "update_000001",
      "update_000002",
      "update_000003",
    ]);
    const end = events.at(-1)!;
    assert.ok(end.kind === "end" && end.evaluation && end.plot!.includes("reward") && end.adapter);
    assert.equal(end.evaluation.before.value, ofKind(events, "evaluation")[0]!.pass_rate!.rate);
    assert.deepEqual(await Array.fromAsync(readEvents(`${root}/runs/test/events.jsonl`)), events);
    const record = await recordOf(root);
    assert.deepEqual([record.state, record.error, record.deterministic], ["completed", null, true]);
    assert.ok(record.started_at && record.ended_at);
    assert.ok((await adapterOf(root)).length > 0);
    assert.deepEqual(
      (await Array.fromAsync(Deno.readDir(`${root}/runs/test`))).map((entry) => entry.name).toSorted(),
      [
        ".gitignore",
        "adapter.gguf",
        "checkpoints",
        "config.toml",
        "events.jsonl",
        "lock",
        "log.txt",
        "run.json",
      ],
    );
  });
});

Deno.test("the record of an ended run is written after its last event", strict, async () => {
  await withFolder(async (root) => {
    const { update } = RunDirectory.prototype;
    const logged: Record<string, string[]> = {};
    RunDirectory.prototype.update = async function (changes) {
      const { path } = this;
      const events = await Array.fromAsync(readEvents(`${path}/events.jsonl`));
      if (changes.state) logged[changes.state] = events.map(({ kind }) => kind).slice(-2);
      await update.call(this, changes);
    };
    try {
      await (await startTestRun({ root })).ended;
    } finally {
      RunDirectory.prototype.update = update;
    }
    assert.deepEqual(logged.completed, ["state", "end"]);
  });
});

Deno.test("a run that is killed anywhere continues to the same adapter", strict, async () => {
  await withFolder(async (root) => {
    const copies: string[] = [];
    const copyAt = (method: string) => {
      // A kill would leave the disk as it is at each engine request.
      if (!["train_step", "checkpoint_save", "adapter_save", "counters"].includes(method)) return;
      copies.push(`${root}/copy_${copies.length}_${method}`);
      copyFolder(`${root}/runs`, `${copies.at(-1)}/runs`);
    };
    const run = await startTestRun({ root, refuse: copyAt, clock: systemClock });
    assert.equal(await run.ended, "completed");
    const adapter = await adapterOf(root);
    assert.ok(copies.length >= 8);
    const checkpoints = new Set<string | null>();
    for (const copy of copies) {
      const resumed = await startTestRun({ root: copy, start: { mode: "resume" } });
      const events = await eventsOf(resumed);
      assert.equal(await resumed.ended, "completed", copy);
      assert.equal(await adapterOf(copy), adapter, copy);
      const all = await Array.fromAsync(readEvents(`${copy}/runs/test/events.jsonl`));
      assert.deepEqual(all.map((event) => event.seq), all.map((_, i) => i + 1));
      const [first] = ofKind(events, "state");
      assert.equal(first!.state, "starting");
      checkpoints.add(first!.checkpoint);
    }
    assert.deepEqual([...checkpoints], [null, "update_000001", "update_000002", "update_000003"]);
  });
});

Deno.test("a resumed run names its checkpoint and repeats the rest", strict, async () => {
  await withFolder(async (root) => {
    const first = await startTestRun({ root, refuse: failAt("train_step", 3) });
    const before = await eventsOf(first);
    assert.equal(await first.ended, "failed");
    const end = before.at(-1)!;
    assert.ok(end.kind === "end" && end.reason === "internal" && /broken on purpose/.test(end.detail!));
    assert.equal((await recordOf(root)).error.reason, "internal");
    const second = await startTestRun({ root, start: { mode: "resume" } });
    const events = await eventsOf(second);
    assert.equal(await second.ended, "completed");
    assert.equal(events[0]!.seq, before.at(-1)!.seq + 1);
    assert.equal(ofKind(events, "state")[0]!.checkpoint, "update_000002");
    assert.deepEqual(ofKind(events, "update").map((event) => event.update), [3]);
    assert.equal((await recordOf(root)).error, null);
  });
});

for (
  const [name, change, values] of [
    ["sft", useSft, ["eval/perplexity"]],
    ["preference", usePreference, ["eval/margin", "eval/accuracy", "preference/margin"]],
  ] as const
) {
  Deno.test(`${name} runs, fails and resumes like the others`, strict, async () => {
    await withFolder(async (root) => {
      const whole = await startTestRun({ root: `${root}/whole`, change });
      const events = await eventsOf(whole);
      assert.equal(await whole.ended, "completed");
      assert.equal(ofKind(events, "update").length, 5);
      const losses = ofKind(events, "evaluation").map((event) => event.loss!);
      assert.equal(losses.length, 4);
      const metrics = ofKind(events, "metrics").flatMap((event) => Object.keys(event.values));
      for (const metric of [`loss/${name}`, "eval/loss", "optimizer/grad_norm", ...values]) {
        assert.ok(metrics.includes(metric), metric);
      }
      const parts = `${root}/parts`;
      await (await startTestRun({ root: parts, change, refuse: failAt("train_step", 4) })).ended;
      await (await startTestRun({ root: parts, change, start: { mode: "resume" } })).ended;
      assert.equal(await adapterOf(parts), await adapterOf(`${root}/whole`));
    });
  });
}

Deno.test(
  "a loss that is not finite and too many lost trajectories fail a run with their reason",
  strict,
  async () => {
    await withFolder(async (root) => {
      const change = (config: ResolvedConfig) => config.agent!.max_new_tokens_per_turn = 1;
      const run = await startTestRun({ root, change });
      const end = (await eventsOf(run)).at(-1)!;
      assert.ok(end.kind === "end" && end.state === "failed" && end.reason === "max_dropped_fraction");
      assert.match(end.detail!, /max_turn_tokens/);
    });
  },
);

Deno.test("a machine's error before the first update leaves no files", strict, async () => {
  await withFolder(async (root) => {
    const refuse = (method: string) => {
      if (method === "load") throw new ServiceError("device_unavailable", "Cannot start: no adapter");
    };
    await assert.rejects(startTestRun({ root, refuse }), { code: "device_unavailable" });
    assert.deepEqual(await Array.fromAsync(Deno.readDir(root)), []);
    const run = await startTestRun({ root });
    await run.ended;
    const adapter = await adapterOf(root);
    await assert.rejects(startTestRun({ root }), { code: "already_exists" });
    await assert.rejects(startTestRun({ root, refuse, start: { force: true } }), {
      code: "device_unavailable",
    });
    assert.equal((await recordOf(root)).state, "completed");
    assert.equal(await adapterOf(root), adapter);
  });
});

Deno.test("a resumed completed run repeats its end and writes nothing", strict, async () => {
  await withFolder(async (root) => {
    const before = await eventsOf(await startTestRun({ root }));
    const log = () => Deno.readTextFile(`${root}/runs/test/events.jsonl`);
    const resume = (change = (_: ResolvedConfig) => {}) =>
      startTestRun({ root, change, start: { mode: "resume" } });
    const text = await log();
    for (let time = 0; time < 2; time++) {
      const again = await resume();
      assert.deepEqual(await eventsOf(again), [before.at(-1)]);
      assert.equal(await again.ended, "completed");
      assert.equal(await log(), text);
    }
    await assert.rejects(resume((config) => config.agent!.updates = 9), /agent\.updates changed/);
    // A process that died before its last event.
    await Deno.writeTextFile(
      `${root}/runs/test/events.jsonl`,
      text.trimEnd().split("\n").slice(0, -1).join("\n") + "\n",
    );
    const [end, ...none] = await eventsOf(await resume());
    const { evaluation, update } = before.at(-1) as Extract<RunEvent, { kind: "end" }>;
    assert.ok(end?.kind === "end" && end.state === "completed" && end.seq === before.at(-1)!.seq);
    assert.deepEqual([end.evaluation, end.update, none], [evaluation, update, []]);
  });
});

Deno.test("a refused resume leaves the configuration that the run has", strict, async () => {
  await withFolder(async (root) => {
    await (await startTestRun({ root, refuse: failAt("train_step", 2) })).ended;
    const stored = () => Deno.readTextFile(`${root}/runs/test/config.toml`);
    const before = await stored();
    const change = (config: ResolvedConfig) => config.training.lr *= 2;
    await assert.rejects(startTestRun({ root, change, start: { mode: "resume" } }), { code: "conflict" });
    assert.equal(await stored(), before);
    const more = (config: ResolvedConfig) => {
      config.checkpoint!.keep = 7;
      config.agent!.concurrent_rollouts = 1;
    };
    await (await startTestRun({ root, change: more, start: { mode: "resume" } })).ended;
    assert.match(await stored(), /keep = 7/);
  });
});

Deno.test(
  "a lost device loses neither a learning rate set by a command nor a fork's initial state",
  strict,
  async () => {
    await withFolder(async (root) => {
      await (await startTestRun({ root: `${root}/parent` })).ended;
      const checkpoint = `${root}/parent/runs/test/checkpoints/update_000002/`;
      const pipe = testPipe();
      let steps = 0;
      const run = await startTestRun({
        root: `${root}/fork`,
        more: MORE.replace("every_updates = 1", "every_updates = 50"),
        change: (config) => config.agent!.updates = 5,
        start: { mode: "fork", checkpoint, control: pipe.port },
        refuse: (method, _, engine) => {
          if (method !== "train_step" || engine > 1) return;
          if (++steps === 1) pipe.send({ id: 1, command: "set_lr", lr: 0.5 });
          else throw new ServiceError("device_lost", "Cannot train: the device is lost");
        },
      });
      const events = await eventsOf(run);
      assert.equal(await run.ended, "completed");
      const rates = ofKind(events, "metrics").flatMap(({ values }) =>
        values["optimizer/learning_rate"] ?? []
      );
      // Update 3 twice, and each later update in which some group has advantages.
      assert.deepEqual(rates.slice(0, 2), [0.01, 0.5]);
      assert.ok(rates.length > 2 && rates.slice(2).every((rate) => rate === 0.5), rates.join());
      const states = ofKind(events, "state").map(({ state, checkpoint }) => [state, checkpoint]);
      const name = "update_000002";
      assert.deepEqual(states, [["starting", name], ["running", name], ["running", name], [
        "completed",
        null,
      ]]);
      assert.equal((await recordOf(`${root}/fork`)).parent.checkpoint, name);
    });
  },
);

Deno.test(
  "a fork continues from a checkpoint with more updates, in its own directory",
  strict,
  async () => {
    await withFolder(async (root) => {
      await (await startTestRun({ root: `${root}/parent` })).ended;
      const checkpoint = `${root}/parent/runs/test/checkpoints/update_000002`;
      const start = { mode: "fork" as const, checkpoint };
      const change = (updates: number) => (config: ResolvedConfig) => config.agent!.updates = updates;
      const fork = await startTestRun({ root: `${root}/fork`, change: change(4), start });
      const events = await eventsOf(fork);
      assert.equal(await fork.ended, "completed");
      assert.deepEqual(ofKind(events, "update").map((event) => event.update), [3, 4]);
      assert.equal((await recordOf(`${root}/fork`)).parent.checkpoint, "update_000002");
      const longer = `${root}/longer`;
      await (await startTestRun({ root: longer, change: change(4) })).ended;
      assert.equal(await adapterOf(`${root}/fork`), await adapterOf(longer));
      await assert.rejects(
        startTestRun({ root: `${root}/other`, change: (config) => config.run.seed = 1, start }),
        { code: "conflict" },
      );
      await assert.rejects(Deno.stat(`${root}/other/runs/test/run.json`), Deno.errors.NotFound);
    });
  },
);

Deno.test("warnings from before the run are emitted at its start, with the key", strict, async () => {
  await withFolder(async (root) => {
    const warnings: PlanWarning[] = [
      { code: "no_checkpoint", field: "checkpoint", message: "without [checkpoint] it starts again" },
    ];
    const events = await eventsOf(await startTestRun({ root, more: "", warnings }));
    const [first, second] = events.slice(1).map((event) => event.kind === "warning" ? event : null);
    assert.deepEqual([first!.code, first!.field, first!.message], Object.values(warnings[0]!));
    assert.deepEqual([second!.code, second!.field], ["software_device", "model.device"]);
  });
});

Deno.test("metrics are also written as CSV where a path is given", strict, async () => {
  await withFolder(async (root) => {
    const csv = `${root}/metrics.csv`;
    const run = await startTestRun({ root, change: (config) => config.metrics.csv = csv });
    const events = await eventsOf(run);
    const lines = (await Deno.readTextFile(csv)).trimEnd().split("\n");
    assert.equal(lines[0], "seq,time,update,step,name,value");
    const samples = ofKind(events, "metrics").flatMap((event) => Object.entries(event.values));
    assert.equal(lines.length - 1, samples.length);
    assert.ok(lines.some((line) => /,1,1,optimizer\/learning_rate,0\.01$/.test(line)));
  });
});

Deno.test("a run whose directory disappears fails, with the path and no stack", strict, async () => {
  await withFolder(async (root) => {
    const csv = `${root}/places/metrics.csv`;
    await Deno.mkdir(`${root}/places`);
    const run = await startTestRun({
      root,
      change: (config) => config.metrics.csv = csv,
      refuse: (method) => {
        if (method !== "adapter_save") return;
        Deno.removeSync(`${root}/places`);
        Deno.writeTextFileSync(`${root}/places`, "another's");
      },
    });
    const message =
      /^Cannot make the folder .*places: a file is there\. The metrics are in .*events\.jsonl; resume the run with --resume/;
    const refused = { name: "ServiceError", code: "internal", message };
    await Promise.all([assert.rejects(eventsOf(run), refused), assert.rejects(run.ended, refused)]);
    assert.equal((await recordOf(root)).state, "completed");
    assert.equal(await Deno.readTextFile(`${root}/places`), "another's");
  });
});
