/** Jobs in real processes of the program's entry. */

import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { withFolder } from "../../tests/folder.ts";
import { JobPool } from "./job_pool.ts";
import { JOB_QUEUES, JOBS, type JobSpec, type JobTypes } from "./job_table.ts";

const CLI = new URL("../../cli.ts", import.meta.url).href;

type Spec = JobSpec<JobTypes["check_dataset"]["request"]>;

/** A pool whose job `check_dataset` has other limits or permissions. */
async function withPool(
  change: Partial<Spec>,
  body: (pool: JobPool) => Promise<void>,
  entry_url = CLI,
): Promise<void> {
  const jobs = { ...JOBS, check_dataset: { ...JOBS.check_dataset, ...change } };
  const pool = new JobPool({ entry_url, jobs });
  try {
    await body(pool);
  } finally {
    await pool.close();
  }
}

const never = new AbortController().signal;
const sanitize = { sanitizeOps: true, sanitizeResources: true };

/** A file of rows. */
async function withRows(text: string, body: (path: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    await Deno.writeTextFile(`${folder}/a,b.jsonl`, text);
    await body(`${folder}/a,b.jsonl`);
  });
}

/** A row of 6 MB that takes far more when it is parsed. */
const SWELLING = `{"text":"a","x":[${"[],".repeat(2_000_000)}[]]}`;

const check = (pool: JobPool, path: string, signal = never) =>
  pool.run("check_dataset", { path, kind: "auto", size_bytes: 1 }, signal);

Deno.test({
  name: "cli.ts is the entry of jobs, and the next job on the same files finds the process warm",
  ...sanitize,
  fn: () =>
    withRows('{"text":"a"}\nx', (path) =>
      withPool({}, async (pool) => {
        const first = await check(pool, path);
        assert.deepEqual([first.kind, first.rows, first.invalid_rows], ["sft", 2, 1]);
        assert.deepEqual(await check(pool, path), first);
      })),
});

Deno.test({
  name: "a job that takes too long is refused with its limit, and the next one works",
  ...sanitize,
  fn: () =>
    withRows('{"text":"a"}', async (path) => {
      await withPool({ limits: { seconds: 0.01, memory_bytes: 2 ** 30 } }, async (pool) => {
        const error: ServiceError = await check(pool, path).then(() => assert.fail("no limit"), (error) =>
          error);
        assert.deepEqual([error.code, error.details], ["data_invalid", { limit: "seconds" }]);
        assert.equal(error.message, "Cannot check the rows: it takes longer than 0.01 s");
        const place = { path, kind: null, line: 1, from: { line: 1, offset: 0 }, limit: 5 };
        assert.equal((await pool.run("preview_rows", place, never)).rows.length, 1);
      });
    }),
});

Deno.test({
  name: "a job that needs too much memory is refused with its limit; with more it works",
  ...sanitize,
  fn: () =>
    withRows(SWELLING, async (path) => {
      const MIB = 2 ** 20;
      await withPool({ limits: { seconds: 120, memory_bytes: 128 * MIB } }, async (pool) => {
        const error: ServiceError = await check(pool, path).then(() => assert.fail("no limit"), (error) =>
          error);
        assert.deepEqual([error.code, error.details], ["data_invalid", { limit: "memory_bytes" }]);
        assert.equal(error.message, "Cannot check the rows: it needs more than 128 MiB of memory");
      });
      await withPool({}, async (pool) =>
        assert.equal((await check(pool, path)).rows, 1));
    }),
});

Deno.test({
  name: `buffers count as memory, which V8's own limit does not see${
    Deno.build.os === "linux" ? "" : " (skipped: only Linux tells the memory of a process)"
  }`,
  ignore: Deno.build.os !== "linux",
  ...sanitize,
  fn: () =>
    withFolder(async (folder) => {
      const entry = `${folder}/entry.ts`;
      const hoard = "const held = []; for (let i = 0; i < 40; i++) held.push(new Uint8Array(1e7).fill(1));";
      await Deno.writeTextFile(entry, `${hoard} for await (const _ of Deno.stdin.readable) { held.length; }`);
      const limits = { seconds: 60, memory_bytes: 2 ** 28 };
      await withPool({ limits }, async (pool) => {
        await assert.rejects(check(pool, "/x"), { code: "data_invalid", message: /needs more than 256 MiB/ });
      }, `file://${entry}`);
    }),
});

Deno.test({
  name: "a job ends when nobody waits for it, whether it runs or waits",
  ...sanitize,
  fn: () =>
    withRows(SWELLING, (path) =>
      withPool({}, async (pool) => {
        const left = new AbortController(), reason = new Error("the client left");
        const jobs = Array.from({ length: JOB_QUEUES.views + 1 }, () => check(pool, path, left.signal));
        const ended = Promise.allSettled(jobs);
        setTimeout(() => left.abort(reason), 100);
        for (const { status, reason: found } of await ended as PromiseRejectedResult[]) {
          assert.deepEqual([status, found], ["rejected", reason]);
        }
        await assert.rejects(check(pool, path, left.signal), reason);
      })),
});

Deno.test({
  name: "more jobs than processes wait for each other",
  ...sanitize,
  fn: () =>
    withRows('{"text":"a"}', (path) =>
      withPool({}, async (pool) => {
        const all = await Promise.all(
          Array.from({ length: 2 * JOB_QUEUES.views + 1 }, () => check(pool, path)),
        );
        assert.ok(all.every(({ rows }) => rows === 1));
      })),
});

Deno.test({
  name: "a job may read what it names, and nothing else",
  ...sanitize,
  fn: () =>
    withRows('{"text":"a"}', async (path) => {
      const elsewhere = { needs: () => [{ read: ["/nonexistent"] }] };
      await withPool(elsewhere, async (pool) => {
        await assert.rejects(check(pool, path), { code: "internal", message: /Requires read access to/ });
      });
    }),
});

Deno.test({
  name: "a job may also do what its world needs to list its tools",
  ...sanitize,
  fn: () =>
    withFolder(async (folder) => {
      const entry = `${folder}/entry.ts`;
      // Answers what it may do, and what a program that it runs prints.
      await Deno.writeTextFile(
        entry,
        `for await (const _line of Deno.stdin.readable) {
           const { state } = Deno.permissions.querySync({ name: "write" });
           const { stdout } = new Deno.Command("echo", { args: ["tools"] }).outputSync();
           console.log(JSON.stringify({ answer: [state, new TextDecoder().decode(stdout)] }));
         }`,
      );
      const needs: Spec["needs"] = ({ path }) => [{ read: [path] }, { run: ["echo"] }];
      await withPool({ needs }, async (pool) => {
        assert.deepEqual(await check(pool, folder), ["prompt", "tools\n"]);
      }, `file://${entry}`);
    }),
});

Deno.test({
  name: "a job's own error comes with its code and details",
  ...sanitize,
  fn: () =>
    withPool({}, async (pool) => {
      await assert.rejects(check(pool, "/nonexistent/x"), {
        code: "path_not_found",
        message: "Cannot read /nonexistent/x: there is no such file or folder",
      });
    }),
});

Deno.test({
  name: "a process that cannot start fails its jobs, and a closed pool refuses them as busy",
  ...sanitize,
  fn: async () => {
    await withPool({}, async (pool) => {
      await assert.rejects(check(pool, "/x"), {
        code: "internal",
        message: /^Cannot check the rows: its process ended with status 1/,
      });
    }, "file:///nonexistent/cli.ts");
    const pool = new JobPool({ entry_url: CLI });
    const refused = {
      code: "device_unavailable",
      message: /the server is stopping/,
      details: { retry_after_seconds: 30 },
    };
    const waiting = assert.rejects(check(pool, "/x"), refused);
    await pool.close();
    await waiting;
    await assert.rejects(check(pool, "/x"), refused);
  },
});

/** The processes of an entry; it is in a folder of its own. */
async function processesOf(entry: string): Promise<number[]> {
  const found: number[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const command = await Deno.readTextFile(`/proc/${name}/cmdline`).catch(() => "");
    if (command.includes(entry)) found.push(Number(name));
  }
  return found;
}

/** Waits for a process of an entry other than `before`. */
async function nextProcess(entry: string, before: number | null): Promise<number> {
  while (true) {
    const found = (await processesOf(entry)).find((pid) => pid !== before);
    if (found !== undefined) return found;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

Deno.test({
  name: `a job whose process another program kills is done by the next process, once${
    Deno.build.os === "linux" ? "" : " (skipped: it looks for processes in /proc)"
  }`,
  ignore: Deno.build.os !== "linux",
  ...sanitize,
  fn: () =>
    withFolder(async (folder) => {
      const entry = `${folder}/entry.ts`, path = `${folder}/rows`;
      // It answers when its file says so.
      await Deno.writeTextFile(
        entry,
        `while ((await Deno.readTextFile(${JSON.stringify(path)})) === "wait") {
           await new Promise((resolve) => setTimeout(resolve, 5));
         }
         for await (const _ of Deno.stdin.readable) console.log('{"answer":7}');`,
      );
      await withPool({}, async (pool) => {
        await Deno.writeTextFile(path, "wait");
        const done = check(pool, path), first = await nextProcess(entry, null);
        Deno.kill(first, "SIGKILL");
        await nextProcess(entry, first);
        await Deno.writeTextFile(path, "go");
        assert.equal(await done, 7);
        // A process that waits for the next job on its files may be killed as well.
        Deno.kill(await nextProcess(entry, null), "SIGTERM");
        assert.equal(await check(pool, path), 7);
      }, `file://${entry}`);
      await withPool({}, async (pool) => {
        await Deno.writeTextFile(path, "wait");
        const failed = assert.rejects(check(pool, path), {
          code: "internal",
          message: /^Cannot check the rows: its process was killed \(SIGKILL\)/,
        });
        const first = await nextProcess(entry, null);
        Deno.kill(first, "SIGKILL");
        Deno.kill(await nextProcess(entry, first), "SIGKILL");
        await failed;
      }, `file://${entry}`);
    }),
});
