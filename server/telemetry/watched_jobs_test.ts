import assert from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ServiceError } from "../../core/errors.ts";
import { Log, withTrace } from "../../core/log.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { WatchedJobs } from "./watched_jobs.ts";

Deno.test("the line of a job that exceeds a limit has the trace of its request", async () => {
  const clock = new ManualClock(), trace = "a".repeat(32);
  let text = "";
  const write = (bytes: Uint8Array) =>
    Promise.resolve((text += new TextDecoder().decode(bytes), bytes.length));
  const log = new Log({ clock, level: "info", write });
  const run = async () => {
    await new Promise((resolve) => setImmediate(resolve));
    throw new ServiceError("data_invalid", "Cannot look: it takes longer than 30 s", { limit: "seconds" });
  };
  const jobs = new WatchedJobs({ jobs: { run } as unknown as JobRunner, clock, log: log.line });
  const { signal } = new AbortController();
  await assert.rejects(withTrace(trace, () => jobs.run("find_models", { roots: [] } as never, signal)));
  await log.flushed();
  const { time: _, ...line } = JSON.parse(text);
  assert.deepEqual(line, {
    trace_id: trace,
    level: "warning",
    job: "find_models",
    message: "Cannot look: it takes longer than 30 s",
  });
});
