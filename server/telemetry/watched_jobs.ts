/** Counts jobs, and logs those that exceed a limit. */

import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { LogLine } from "../../core/log.ts";
import type { JobName, JobRunner, JobTypes } from "../../runs/jobs/job_table.ts";
import { Counter, type Family, Histogram } from "./exposition.ts";

/** Upper limits of the buckets, in seconds. */
const JOB_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800];

/**
 * `refused`: the job's own error about its input; `limit`: it took too long or too much memory; `busy`: too many jobs
 * waited already.
 */
type Outcome = "done" | "refused" | "limit" | "busy" | "cancelled" | "failed";

function outcomeOf(error: unknown, signal: AbortSignal): Outcome {
  if (signal.aborted) return "cancelled";
  if (!(error instanceof ServiceError) || error.code === "internal") return "failed";
  if (error.code === "cancelled") return "cancelled";
  if (error.code === "device_unavailable") return "busy";
  return error.details.limit === undefined ? "refused" : "limit";
}

export class WatchedJobs implements JobRunner {
  readonly #options: { jobs: JobRunner; clock: Clock; log: (line: LogLine) => void };
  readonly #counts = new Counter();
  readonly #durations = new Map<JobName, Histogram>();
  readonly #open = new Map<JobName, number>();

  constructor(options: { jobs: JobRunner; clock: Clock; log: (line: LogLine) => void }) {
    this.#options = options;
  }

  async run<N extends JobName>(
    name: N,
    request: JobTypes[N]["request"],
    signal: AbortSignal,
  ): Promise<JobTypes[N]["answer"]> {
    const { jobs, clock, log } = this.#options, started_ms = clock.monotonic_ms();
    const end = (outcome: Outcome) => {
      this.#open.set(name, this.#open.get(name)! - 1);
      this.#counts.add({ job: name, outcome });
      const histogram = this.#durations.get(name) ?? new Histogram(JOB_BUCKETS);
      this.#durations.set(name, histogram);
      histogram.add((clock.monotonic_ms() - started_ms) / 1000);
    };
    this.#open.set(name, (this.#open.get(name) ?? 0) + 1);
    try {
      const answer = await jobs.run(name, request, signal);
      end("done");
      return answer;
    } catch (error) {
      const outcome = outcomeOf(error, signal);
      end(outcome);
      // The caller logs the failures of its job.
      if (outcome === "limit") log({ level: "warning", job: name, message: (error as Error).message });
      throw error;
    }
  }

  families(): Family[] {
    return [
      {
        name: "svc_jobs_total",
        type: "counter",
        help: "Jobs on clients' files that have ended, by name and outcome.",
        samples: this.#counts.samples(),
      },
      {
        name: "svc_job_duration_seconds",
        type: "histogram",
        help: "Time of a job, waiting for a free process included.",
        samples: [...this.#durations].flatMap(([job, histogram]) => histogram.samples({ job })),
      },
      {
        name: "svc_jobs_in_progress",
        type: "gauge",
        help: "Jobs that run or wait for a free process.",
        samples: [...this.#open].map(([job, value]) => ({ labels: { job }, value })),
      },
    ];
  }
}
