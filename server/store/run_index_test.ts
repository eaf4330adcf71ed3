import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { eventsPathOf } from "../../runs/directory/run_directory.ts";
import { TEST_UPDATE } from "../../runs/events_testing.ts";
import { samplesOf } from "../../runs/results/metric_series.ts";
import { runLogOf } from "../../runs/results/run_log.ts";
import { withFolder } from "../../tests/folder.ts";
import { metrics, resumed, writeEvents } from "../runs_testing.ts";
import { openDatabase } from "./database.ts";
import { rowsBySeq, rowsByUpdate } from "./metric_rows.ts";
import { RunIndex } from "./run_index.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

async function withIndex(
  body: (given: {
    directory: string;
    index: RunIndex;
    follow: () => Promise<void>;
    /** `seq/update/step name=value` of every sample. */
    samples: (order?: typeof rowsBySeq) => Promise<string[]>;
    places: () => string[];
    /** The number of rows of all logs. */
    rows: () => number;
    /** An index of the next server on the same database. */
    reopened: () => RunIndex;
  }) => Promise<void>,
): Promise<void> {
  await withFolder(async (root) => {
    const directory = `${root}/run`;
    const database = openDatabase(`${root}/index.sqlite`, { clock: new ManualClock(), log: () => {} });
    const index = new RunIndex(database), log = runLogOf("run_A", { directory, trajectories: null })!;
    await body({
      directory,
      index,
      follow: () => index.follow(log),
      async samples(order = rowsBySeq) {
        const rows = await Array.fromAsync(order(database, { run: "run_A" }));
        return rows.flatMap((row) => samplesOf(row)).map(({ seq, update, step, name, value }) =>
          `${seq}/${update}/${step} ${name}=${value}`
        );
      },
      places: () =>
        database.all<{ kind: string; name: string; seq: number }>(
          "SELECT kind, name, seq FROM event_places ORDER BY seq",
        ).map(({ kind, name, seq }) => `${seq} ${kind} ${name}`),
      rows: () => database.get<{ count: number }>("SELECT count(*) AS count FROM metric_rows")!.count,
      reopened: () => new RunIndex(database),
    });
    database.close();
  });
}

const checkpoint = (update: number) =>
  ({
    kind: "checkpoint",
    name: `update_00000${update}`,
    update,
    step: update,
    size_bytes: 1,
    metrics: {},
    best: false,
  }) as const;

Deno.test("the index follows a log as it grows", strict, async () => {
  await withIndex(async ({ directory, follow, samples, places }) => {
    await follow();
    assert.deepEqual(await samples(), []);
    await writeEvents(directory, [resumed(0), metrics(1, { a: 0.1, "b/c": -2 }), {
      ...TEST_UPDATE,
      update: 1,
    }]);
    await follow();
    assert.deepEqual(await samples(), ["2/1/1 a=0.1", "2/1/1 b/c=-2"]);
    await writeEvents(directory, [checkpoint(1), metrics(2, { a: 1e-300 })]);
    await follow();
    await follow();
    assert.deepEqual(await samples(), ["2/1/1 a=0.1", "2/1/1 b/c=-2", "5/2/2 a=1e-300"]);
    assert.deepEqual(places(), ["4 checkpoint update_000001"]);
  });
});

Deno.test("nothing after the end of a log is read, and an older end changes nothing", strict, async () => {
  await withIndex(async ({ directory, index, samples }) => {
    await writeEvents(directory, [metrics(1, { a: 1 }), metrics(2, { a: 2 })]);
    const lines = (await Deno.readTextFile(eventsPathOf(directory))).split("\n");
    const [first, both] = [lines[0]!.length + 1, lines[0]!.length + lines[1]!.length + 2];
    const followTo = (log_bytes: number) =>
      index.follow(runLogOf("run_A", { directory, log_bytes, trajectories: null })!);
    await followTo(0);
    assert.deepEqual(await samples(), []);
    for (const bytes of [first, first + 1, both - 1]) {
      await followTo(bytes);
      assert.deepEqual(await samples(), ["1/1/1 a=1"]);
    }
    for (const bytes of [both, first]) {
      await followTo(bytes);
      assert.deepEqual(await samples(), ["1/1/1 a=1", "2/2/2 a=2"]);
    }
  });
});

Deno.test("a line without its end is read when it is complete", strict, async () => {
  await withIndex(async ({ directory, follow, samples }) => {
    await writeEvents(directory, [metrics(1, { a: 1 }), metrics(2, { a: 2 })]);
    const path = eventsPathOf(directory), text = await Deno.readTextFile(path);
    for (const bytes of [text.length - 20, text.length - 1]) {
      await Deno.writeTextFile(path, text.slice(0, bytes));
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 a=1"]);
    }
    await Deno.writeTextFile(path, text);
    await follow();
    assert.deepEqual(await samples(), ["1/1/1 a=1", "2/2/2 a=2"]);
  });
});

Deno.test(
  "a repeated update replaces the first one, and later ones are gone until they are repeated",
  strict,
  async () => {
    await withIndex(async ({ directory, follow, samples, places }) => {
      await writeEvents(directory, [1, 2, 3].flatMap((n) => [metrics(n, { a: n }), checkpoint(n)]));
      await follow();
      await writeEvents(directory, [resumed(1), resumed(1, "running")]);
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 a=1"]);
      assert.deepEqual(places(), ["2 checkpoint update_000001"]);
      await writeEvents(directory, [metrics(2, { a: 20 }), resumed(2, "pausing"), resumed(2, "paused")]);
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 a=1", "9/2/2 a=20"]);
    });
  },
);

Deno.test(
  "without a state event between them the later sample of an update, step and name counts",
  strict,
  async () => {
    await withIndex(async ({ directory, follow, samples }) => {
      await writeEvents(directory, [
        metrics(1, { a: 1, b: 1 }),
        metrics(2, { a: 2 }),
        metrics(1, { a: 10 }),
        metrics(2, { a: 20, c: 20 }),
      ]);
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 b=1", "3/1/1 a=10", "4/2/2 a=20", "4/2/2 c=20"]);
      const byUpdate = (database: Parameters<typeof rowsBySeq>[0], selection: { run: string }) =>
        rowsByUpdate(database, { ...selection, updates: { first: 2 } });
      assert.deepEqual(await samples(byUpdate), ["4/2/2 a=20", "4/2/2 c=20"]);
    });
  },
);

Deno.test("a log that another run wrote in the same place is read from its start", strict, async () => {
  await withIndex(async ({ directory, follow, samples }) => {
    await writeEvents(directory, [metrics(1, { a: 1 }), metrics(2, { a: 2 })]);
    await follow();
    await Deno.remove(directory, { recursive: true });
    await writeEvents(directory, [metrics(1, { shorter: 1 })]);
    await follow();
    assert.deepEqual(await samples(), ["1/1/1 shorter=1"]);
    await Deno.remove(directory, { recursive: true });
    const longer = [1, 2, 3, 4].map((n) => metrics(n, { longer_than_before: n }));
    await writeEvents(directory, longer);
    await follow();
    assert.equal((await samples()).length, 4);
  });
});

Deno.test("a damaged line ends what is read, without an end of its own", strict, async () => {
  await withIndex(async ({ directory, index, follow, samples }) => {
    await writeEvents(directory, [metrics(1, { a: 1 }), metrics(2, { a: 2 })]);
    const path = eventsPathOf(directory), [first, second] = (await Deno.readTextFile(path)).split("\n");
    for (
      const broken of [
        "{",
        "null",
        '{"seq":2,"kind":"metrics"}',
        "[]",
        '{"seq":"2"}',
        second!.replace('"seq":2', '"seq":4'),
      ]
    ) {
      await index.forget("run_A");
      const third = second!.replace('"seq":2', '"seq":3');
      await Deno.writeTextFile(path, `${first}\n${broken}\n${third}\n`);
      await follow();
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 a=1"], broken);
      // Its writer cuts it off.
      await Deno.writeTextFile(path, `${first}\n${second}\n`);
      await follow();
      assert.deepEqual(await samples(), ["1/1/1 a=1", "2/2/2 a=2"], broken);
    }
  });
});

Deno.test("a forgotten run is gone, and can be read again", strict, async () => {
  await withIndex(async ({ directory, index, follow, samples, places }) => {
    const many = Array.from({ length: 2500 }, (_, n) => metrics(n + 1, { a: n }));
    await writeEvents(directory, [...many, checkpoint(1)]);
    await Promise.all([follow(), follow(), index.forget("run_A")]);
    assert.deepEqual([await samples(), places()], [[], []]);
    await index.forget("run_absent");
    await follow();
    assert.equal((await samples()).length, 2500);
    await index.clean();
    assert.equal((await samples()).length, 2500);
  });
});

Deno.test("rows that a killed server had begun to remove are removed at the next start", strict, async () => {
  await withFolder(async (root) => {
    await writeEvents(`${root}/run`, [metrics(1, { a: 1 }), checkpoint(1)]);
    const database = openDatabase(null, { clock: new ManualClock(), log: () => {} });
    const index = new RunIndex(database);
    await index.follow(runLogOf("run_A", { directory: `${root}/run`, trajectories: null })!);
    database.run("UPDATE logs SET run = NULL");
    await index.clean();
    for (const table of ["logs", "metric_rows", "event_places"]) {
      assert.deepEqual(database.all(`SELECT * FROM ${table}`), [], table);
    }
    database.close();
  });
});

Deno.test("a server that ends stops removing rows; the next one goes on", strict, async () => {
  await withIndex(async ({ directory, index, follow, samples, rows, reopened }) => {
    const many = Array.from({ length: 5000 }, (_, n) => metrics(n + 1, { a: n }));
    await writeEvents(directory, many);
    await follow();
    const forgotten = index.forget("run_A");
    await index.stop();
    await forgotten;
    assert.deepEqual(await samples(), []);
    // At most one part of 2,000 was removed.
    assert.ok(rows() >= 3000, `${rows()} rows`);
    await reopened().clean();
    assert.equal(rows(), 0);
  });
});
