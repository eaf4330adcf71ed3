import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { ManualClock } from "../../core/clock_fake.ts";
import { withFolder } from "../../tests/folder.ts";
import { openDatabase } from "./database.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

function open(path: string | null, logged: Record<string, unknown>[] = []) {
  return openDatabase(path, { clock: new ManualClock(), log: (line) => logged.push(line) });
}

const INSERT = "INSERT INTO logs (run) VALUES (?)";
const runs = (database: ReturnType<typeof open>) =>
  database.all<{ run: string }>("SELECT run FROM logs ORDER BY run").map(({ run }) => run);

Deno.test(
  "the database waits for the disk, checks references and keeps what was written",
  strict,
  async () => {
    await withFolder((root) => {
      const database = open(`${root}/index.sqlite`);
      const pragma = (name: string) =>
        Object.values(database.get<Record<string, unknown>>(`PRAGMA ${name}`)!)[0];
      assert.deepEqual(
        ["journal_mode", "synchronous", "foreign_keys", "busy_timeout"].map(pragma),
        ["wal", 2, 1, 5000],
      );
      database.transaction(() => database.run(INSERT, "run_1"));
      database.rebuildable(() => database.run(INSERT, "run_2"));
      assert.equal(pragma("synchronous"), 2);
      assert.throws(
        () => database.run("INSERT INTO event_places VALUES (9, 'a', 'b', 1, 1, 0, 1)"),
        /FOREIGN KEY/,
      );
      database.close();
      const again = open(`${root}/index.sqlite`);
      assert.deepEqual(runs(again), ["run_1", "run_2"]);
      again.close();
      return Promise.resolve();
    });
  },
);

Deno.test("a transaction that fails changes nothing", () => {
  const database = open(null);
  assert.throws(
    () =>
      database.transaction(() => {
        database.run(INSERT, "run_1");
        throw new Error("broken on purpose");
      }),
    /broken on purpose/,
  );
  assert.deepEqual(runs(database), []);
  database.close();
});

Deno.test("a damaged database is moved aside and an empty one takes its place", strict, async () => {
  await withFolder(async (root) => {
    const path = `${root}/index.sqlite`;
    const whole = () => {
      const database = open(path);
      for (let i = 0; i < 2000; i++) database.run(INSERT, `run_${i}`);
      database.close();
    };
    const damages: ((bytes: Uint8Array) => Uint8Array)[] = [
      () =>
        new TextEncoder().encode(
          "this is no database, and it is long enough for a header of one.".repeat(20),
        ),
      // A page in the middle of the file.
      (bytes) => bytes.fill(0xff, 8192, 12_288),
      (bytes) => bytes.slice(0, 4096),
    ];
    for (const [n, damage] of damages.entries()) {
      whole();
      await Deno.writeFile(path, damage(await Deno.readFile(path)));
      const logged: Record<string, unknown>[] = [];
      const database = open(path, logged);
      assert.deepEqual(runs(database), [], `damage ${n}`);
      database.run(INSERT, "run_new");
      database.close();
      assert.match(
        String(logged[0]!.message),
        /index\.sqlite is damaged; it is now .*index\.sqlite\.damaged-2026-01-01T/,
      );
      const aside = (await Array.fromAsync(Deno.readDir(root))).filter(({ name }) =>
        name.includes("damaged")
      );
      assert.equal(aside.length, 1);
      await Deno.remove(`${root}/${aside[0]!.name}`);
      await Deno.remove(path);
    }
  });
});

Deno.test("a database of version 3 keeps how far its runs are published", strict, () =>
  withFolder((root) => {
    const path = `${root}/index.sqlite`;
    open(path).close();
    const older = new DatabaseSync(path);
    older.exec(`
      ALTER TABLE published_runs RENAME COLUMN published_seq TO told_seq;
      ALTER TABLE published_runs RENAME TO told_runs;
      INSERT INTO told_runs VALUES ('run_1', 7, 'running');
      PRAGMA user_version = 3;
    `);
    older.close();
    const database = open(path);
    const rows = database.all<object>("SELECT run, published_seq, state FROM published_runs");
    assert.deepEqual(rows.map((row) => ({ ...row })), [{
      run: "run_1",
      published_seq: 7,
      state: "running",
    }]);
    database.close();
    return Promise.resolve();
  }));

Deno.test("the database of a newer build is refused and stays", strict, async () => {
  await withFolder(async (root) => {
    const path = `${root}/index.sqlite`;
    open(path).close();
    const newer = new DatabaseSync(path);
    newer.exec("PRAGMA user_version = 99");
    newer.close();
    assert.throws(() => open(path), {
      code: "conflict",
      message: /its schema has version 99, and this build knows/,
    });
    assert.ok((await Deno.stat(path)).isFile);
    assert.throws(() => open(`${root}/absent/index.sqlite`), {
      code: "internal",
      message: /Cannot open the index/,
    });
  });
});
