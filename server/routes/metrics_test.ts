import assert from "node:assert/strict";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { EventData } from "../../runs/record/event.ts";
import { failAt, startTestRun, type TestRunOptions } from "../../runs/run_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { testApp } from "../app_testing.ts";
import { metrics, resumed, runsOf, storedRun, writeEvents } from "../runs_testing.ts";

type Send = ReturnType<typeof testApp>["send"];

/** @param body Gets requests for the metrics of a run with this log. */
async function withLog(
  events: readonly EventData[],
  body: (get: (query: string) => ReturnType<Send>, directory: string) => Promise<void>,
): Promise<void> {
  await withFolder(async (root) => {
    const run = storedRun(root, "run_A");
    await writeEvents(run.directory!, events);
    const { send } = testApp({ runs: runsOf(run) });
    await body((query) => send(`/v1/runs/run_A/metrics${query}`), run.directory!);
  });
}

const THREE = [resumed(0), ...[1, 2, 3].map((n) => metrics(n, { "loss/policy": n / 8, "reward/mean": -n }))];

Deno.test("samples have the event, time, update, step, name and value", async () => {
  await withLog(THREE.slice(0, 2), async (get) => {
    const { status, json } = await get("");
    const rest = { seq: 2, time: "2026-01-01T00:00:01.000Z", update: 1, step: 1 };
    assert.equal(status, 200);
    assert.deepEqual(json, {
      samples: [{ ...rest, name: "loss/policy", value: 0.125 }, { ...rest, name: "reward/mean", value: -1 }],
      next_since: 2,
    });
  });
});

Deno.test("next_since continues without loss or repeat, also while the log grows", async () => {
  await withLog(THREE, async (get, directory) => {
    const first = (await get("?limit=3")).json;
    assert.deepEqual(first.samples.map(({ seq }: { seq: number }) => seq), [2, 2]);
    assert.equal(first.next_since, 2);
    const second = (await get(`?since=${first.next_since}`)).json;
    assert.deepEqual(second.samples.map(({ seq }: { seq: number }) => seq), [3, 3, 4, 4]);
    assert.equal(second.next_since, 4);
    assert.deepEqual((await get("?since=4")).json, { samples: [], next_since: 4 });
    await writeEvents(directory, [metrics(4, { "loss/policy": 0.5 })]);
    const third = (await get("?since=4")).json;
    assert.deepEqual([third.samples.length, third.samples[0].value, third.next_since], [1, 0.5, 5]);
    // An event is never divided, so an answer may have more than the limit.
    assert.equal((await get("?limit=1")).json.samples.length, 2);
    assert.equal((await get("?limit=4")).json.samples.length, 4);
  });
});

Deno.test("names choose metrics", async () => {
  await withLog(THREE, async (get) => {
    const { json } = await get("?names=reward/mean,absent&limit=2");
    assert.deepEqual(json.samples.map(({ name, value }: { name: string; value: number }) => [name, value]), [
      ["reward/mean", -1],
      ["reward/mean", -2],
    ]);
    assert.equal(json.next_since, 3);
    for (const name of ["__proto__", "constructor", "%00", "absent"]) {
      assert.deepEqual((await get(`?names=${name}`)).json, { samples: [], next_since: 0 });
    }
  });
});

Deno.test("buckets have min, mean, max and last of their updates", async () => {
  const values = [3, 1, 2, 8, 4, 6, 5];
  await withLog(
    values.map((value, n) => metrics(n + 1, { x: value, [n > 4 ? "late" : "early"]: 1 })),
    async (get) => {
      // Updates 1 to 7 in three buckets: ⌊3 (u − 1) / 7⌋ is 0 for 1 to 3, 1 for 4 and 5, 2 for 6 and 7.
      const { json } = await get("?buckets=3&names=x");
      assert.deepEqual(json, {
        buckets: [
          { name: "x", first_update: 1, last_update: 3, count: 3, min: 1, mean: 2, max: 3, last: 2 },
          { name: "x", first_update: 4, last_update: 5, count: 2, min: 4, mean: 6, max: 8, last: 4 },
          { name: "x", first_update: 6, last_update: 7, count: 2, min: 5, mean: 5.5, max: 6, last: 5 },
        ],
        next_since: 7,
      });
      assert.deepEqual((await get("?since=7")).json.samples, []);
      assert.equal((await get("?since=6")).json.samples.length, 2);
      const all = (await get("?buckets=1000")).json.buckets;
      assert.equal(all.length, 14);
      assert.deepEqual(
        all.filter(({ name }: { name: string }) => name === "late").map((
          { first_update, count }: { first_update: number; count: number },
        ) => [first_update, count]),
        [[6, 1], [7, 1]],
      );
      assert.equal((await get("?buckets=1&since=5&names=x")).json.buckets[0].count, 2);
    },
  );
});

Deno.test("samples and buckets are those of the updates that are asked for", async () => {
  await withLog(Array.from({ length: 9 }, (_, n) => metrics(n + 1, { x: n + 1 })), async (get) => {
    const bucketsOf = async (query: string) =>
      (await get(`?buckets=3&${query}`)).json.buckets.map((
        { first_update, last_update, mean }: Record<string, number>,
      ) => [first_update, last_update, mean]);
    assert.deepEqual(await bucketsOf("first_update=4&last_update=6"), [[4, 4, 4], [5, 5, 5], [6, 6, 6]]);
    assert.deepEqual(await bucketsOf("first_update=6"), [[6, 7, 6.5], [8, 8, 8], [9, 9, 9]]);
    assert.deepEqual(await bucketsOf("last_update=2"), [[1, 1, 1], [2, 2, 2]]);
    assert.deepEqual(await bucketsOf("first_update=10"), []);
    const { samples } = (await get("?first_update=3&last_update=4")).json;
    assert.deepEqual(samples.map(({ update }: { update: number }) => update), [3, 4]);
  });
});

Deno.test("a bucket of values that are too large to be added has a mean", async () => {
  await withLog([metrics(1, { x: 1.7e308 }), metrics(2, { x: -1.7e308 })], async (get) => {
    assert.equal((await get("?buckets=1")).json.buckets[0].mean, 0);
    assert.match(
      (await get("?buckets=1&format=csv")).body,
      /^x,1,2,2,-1\.7e\+308,0,1\.7e\+308,-1\.7e\+308$/m,
    );
  });
});

Deno.test("CSV has the same columns and rows as JSON, and all of them unless a limit is given", async () => {
  await withLog(THREE, async (get) => {
    const { headers, body } = await get("?format=csv&names=loss/policy");
    assert.equal(headers["content-type"], "text/csv");
    assert.equal(
      body,
      "seq,time,update,step,name,value\n" +
        "2,2026-01-01T00:00:01.000Z,1,1,loss/policy,0.125\n" +
        "3,2026-01-01T00:00:02.000Z,2,2,loss/policy,0.25\n" +
        "4,2026-01-01T00:00:03.000Z,3,3,loss/policy,0.375\n",
    );
    assert.equal((await get("?format=csv&limit=2&since=2")).body.split("\n").length, 4);
    assert.equal(
      (await get("?format=csv&buckets=1&names=reward/mean")).body,
      "name,first_update,last_update,count,min,mean,max,last\nreward/mean,1,3,3,-3,-2,-1,-3\n",
    );
  });
});

Deno.test("a run without a log has no samples and no buckets", async () => {
  await withFolder(async (root) => {
    const { send } = testApp({
      runs: runsOf(storedRun(root, "run_A"), {
        ...storedRun(root, "run_B"),
        directory: null,
        trajectories: null,
      }),
    });
    for (const id of ["run_A", "run_B"]) {
      assert.deepEqual((await send(`/v1/runs/${id}/metrics`)).json, { samples: [], next_since: 0 });
      assert.deepEqual((await send(`/v1/runs/${id}/metrics?buckets=2`)).json, { buckets: [], next_since: 0 });
    }
  });
});

Deno.test("without an event log the samples come from the index of the trajectories", async () => {
  await withFolder(async (root) => {
    const line = (update: number, value: number) =>
      JSON.stringify({
        format: 2,
        update,
        step: update,
        time: "2026-01-01T00:00:00.000Z",
        file: "",
        metrics: { a: value },
      });
    const directory = `${root}/observe`;
    await Deno.mkdir(directory);
    // A crash cut off a line; a later line of an update counts.
    await Deno.writeTextFile(
      `${directory}/index.jsonl`,
      `${line(1, 1)}\n{"format":2,"upd\n${line(2, 2)}\n${line(1, 3)}\n`,
    );
    const run = {
      ...storedRun(root, "run_view"),
      directory: null,
      trajectories: directory,
      checkpoints: null,
      config: null,
      shown_config: null,
    };
    const { send } = testApp({ runs: runsOf(run) });
    const { samples } = (await send("/v1/runs/run_view/metrics")).json;
    assert.deepEqual(
      samples.map(({ seq, update, step, value }: Record<string, number>) => [seq, update, step, value]),
      [
        [3, 2, 2, 2],
        [4, 1, 1, 3],
      ],
    );
  });
});

Deno.test("parameters out of range and of other forms are refused at their place", async () => {
  await withLog(THREE, async (get) => {
    const cases: [string, string, string][] = [
      ["limit=0", "/query/limit", "out_of_range"],
      ["limit=100001", "/query/limit", "out_of_range"],
      ["limit=1e3", "/query/limit", "invalid_value"],
      ["since=-1", "/query/since", "out_of_range"],
      ["since=", "/query/since", "invalid_value"],
      ["since=99999999999999999", "/query/since", "out_of_range"],
      ["since=9999999999999999", "/query/since", "out_of_range"],
      ["buckets=0", "/query/buckets", "out_of_range"],
      ["buckets=1001", "/query/buckets", "out_of_range"],
      ["buckets=2&limit=5", "/query/limit", "invalid_value"],
      ["names=a,,b", "/query/names", "invalid_value"],
      [`names=${"a,".repeat(200)}a`, "/query/names", "invalid_value"],
      ["first_update=5&last_update=4", "/query/last_update", "invalid_value"],
      ["first_update=-1", "/query/first_update", "out_of_range"],
      ["format=xml", "/query/format", "invalid_value"],
      ["fromat=csv", "/query/fromat", "unknown_field"],
    ];
    for (const [query, pointer, code] of cases) {
      const { status, json } = await get(`?${query}`);
      assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [422, pointer, code], query);
    }
    for (const query of ["limit=1", "limit=100000", "buckets=1", "buckets=1000", "since=9007199254740991"]) {
      assert.equal((await get(`?${query}`)).status, 200, query);
    }
  });
});

Deno.test("an unknown run is 404, whatever its id", async () => {
  const { send } = testApp();
  for (const id of ["run_X", "__proto__", "constructor", "%00", "a".repeat(5000), "%F0%9F%98%80"]) {
    const { status, json } = await send(`/v1/runs/${id}/metrics?limit=x`);
    assert.deepEqual([status, json.errors[0].pointer, json.errors[0].code], [404, "/path/id", "not_found"]);
  }
});

Deno.test("a run that was resumed has the samples, evaluations and checkpoints of one that was not", async () => {
  const change = (config: ResolvedConfig) => {
    config.agent!.updates = 5;
    config.checkpoint!.every_updates = 2;
    config.checkpoint!.best = false;
  };
  const newEngine: TestRunOptions["newEngine"] = (refuse) => new ScriptedEngine({ refuse }).client;
  await withFolder(async (root) => {
    await (await startTestRun({ root: `${root}/whole`, change, newEngine })).ended;
    const given = { root: `${root}/resumed`, change, newEngine };
    const resumed = storedRun(given.root, "test"), { send } = testApp({ runs: runsOf(resumed) });
    assert.equal(await (await startTestRun({ ...given, refuse: failAt("train_step", 4) })).ended, "failed");
    const samples = async (get: Send) =>
      (await get("/v1/runs/test/metrics")).json.samples
        .filter(({ name }: { name: string }) => !/time|per_second|_ms/.test(name))
        .map(({ update, step, name, value }: Record<string, unknown>) =>
          `${update}/${step} ${name}=${value}`
        );
    const of_failed = await samples(send);
    // Updates 1 to 3 are done, and update 3 is repeated from the checkpoint after update 2.
    assert.ok(of_failed.some((sample: string) => sample.startsWith("3/")));
    assert.equal(await (await startTestRun({ ...given, start: { mode: "resume" } })).ended, "completed");
    const { send: of_whole } = testApp({ runs: runsOf(storedRun(`${root}/whole`, "test")) });
    assert.deepEqual(await samples(send), await samples(of_whole));
    for (const path of ["evaluations", "checkpoints"]) {
      const [a, b] = [
        (await send(`/v1/runs/test/${path}`)).json,
        (await of_whole(`/v1/runs/test/${path}`)).json,
      ];
      assert.ok(a[path].length > 1);
      const shown = (list: Record<string, unknown>[]) => list.map((item) => ({ ...item, size_bytes: 0 }));
      assert.deepEqual(shown(a[path]), shown(b[path]));
    }
  });
});
