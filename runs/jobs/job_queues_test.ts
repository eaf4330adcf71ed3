/** The queues of jobs, with a program that does a job when a file says so. */

import assert from "node:assert/strict";
import { withFolder } from "../../tests/folder.ts";
import { JobPool, MAX_WAITING_JOBS } from "./job_pool.ts";
import { JOB_QUEUES, LARGE_UPLOAD_BYTES } from "./job_table.ts";

const sanitize = { sanitizeOps: true, sanitizeResources: true };
const never = new AbortController().signal;

/**
 * A process that answers with the name of its job. Checks of large uploads wait until the file says "go"; when nobody
 * writes that, they give up, so that a test fails and does not hang.
 */
const program = (path: string) =>
  `const isWaiting = async ({ request: { size_bytes = 0 } }) =>
     size_bytes > ${LARGE_UPLOAD_BYTES} && (await Deno.readTextFile(${JSON.stringify(path)})) === "wait";
   for await (const bytes of Deno.stdin.readable) {
     const line = JSON.parse(new TextDecoder().decode(bytes));
     let tries = 0;
     while (await isWaiting(line) && tries < 5000) {
       await new Promise((resolve) => setTimeout(resolve, 5));
       tries++;
     }
     console.log(JSON.stringify({ answer: tries < 5000 ? line.name : "gave up" }));
   }`;

interface Jobs {
  pool: JobPool;
  /** The check of an upload of a size. */
  check: (size_bytes: number, signal?: AbortSignal) => Promise<unknown>;
  /** Lets large uploads be checked. */
  go: () => Promise<void>;
}

async function withQueues(test: (jobs: Jobs) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const path = `${folder}/gate`, entry = `${folder}/entry.ts`;
    await Deno.writeTextFile(path, "wait");
    await Deno.writeTextFile(entry, program(path));
    const pool = new JobPool({ entry_url: `file://${entry}` });
    const check = (size_bytes: number, signal = never) =>
      pool.run("check_dataset", { path, kind: "auto", size_bytes }, signal);
    try {
      await test({ pool, check, go: () => Deno.writeTextFile(path, "go") });
    } finally {
      await pool.close();
    }
  });
}

Deno.test(
  "long jobs hold up neither plans nor short jobs",
  sanitize,
  () =>
    withQueues(async ({ pool, check, go }) => {
      const large = Array.from({ length: JOB_QUEUES.uploads + 2 }, () => check(LARGE_UPLOAD_BYTES + 1));
      assert.equal(await check(LARGE_UPLOAD_BYTES), "check_dataset");
      assert.equal(await pool.run("find_models", { roots: [] }, never), "find_models");
      assert.equal(
        await pool.run("plan_run", { files: [], fork: null, files_only: true } as never, never),
        "plan_run",
      );
      await go();
      assert.deepEqual(await Promise.all(large), large.map(() => "check_dataset"));
    }),
);

Deno.test(
  "a full queue refuses, and has room when somebody leaves",
  sanitize,
  () =>
    withQueues(async ({ check, go }) => {
      const large = LARGE_UPLOAD_BYTES + 1,
        left = new AbortController(),
        reason = new Error("the client left");
      const running = Array.from({ length: JOB_QUEUES.uploads }, () => check(large));
      const leaving = assert.rejects(check(large, left.signal), reason);
      const waiting = Array.from({ length: MAX_WAITING_JOBS - 1 }, () => check(large));
      const late = new AbortController(), refused = check(large, late.signal);
      late.abort(new Error("it was queued"));
      await assert.rejects(refused, {
        code: "device_unavailable",
        message: "Cannot check the rows: 1000 requests like this one wait already; try again later",
        details: { retry_after_seconds: 10 },
      });
      assert.equal(await check(1), "check_dataset", "another queue has room");
      left.abort(reason);
      await leaving;
      const last = check(large);
      await go();
      const all = [...running, ...waiting, last];
      assert.deepEqual(await Promise.all(all), all.map(() => "check_dataset"));
    }),
);
