/** Runs jobs in child processes with limits of time and memory (docs/decisions/jobs.md). */

import { ServiceError } from "../../core/errors.ts";
import { nextTurn } from "../../core/pauses.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { answerOf, JobProcess } from "./job_process.ts";
import {
  JOB_QUEUES,
  type JobName,
  type JobQueue,
  type JobRunner,
  JOBS,
  type JobSpec,
  type JobTypes,
} from "./job_table.ts";

/** The most jobs that wait in a queue. It is limited because the requests of waiting jobs are in memory. */
export const MAX_WAITING_JOBS = 1000;

/** After this many seconds a client that found a queue full may ask again. */
const RETRY_AFTER_SECONDS = 10;

/** The most idle processes. Each waits for another job on the files of its last one. */
const IDLE_PROCESSES = 2;

/** An idle process ends after this time. */
const IDLE_MS = 30_000;

export interface JobPoolOptions {
  /** The program's entry file, which the processes run. */
  entry_url: string;
  /** Limits and permissions by name; absent: {@link JOBS}. */
  jobs?: { readonly [N in JobName]: JobSpec<JobTypes[N]["request"]> };
}

/** After this many seconds the pool of a server that is started again may take a job. */
const CLOSED_RETRY_SECONDS = 30;

/** A process without a job. Only a job that needs exactly its permissions, which name files, can use it. */
interface Idle {
  key: string;
  process: JobProcess;
  timer: ReturnType<typeof setTimeout>;
}

/**
 * Runs the jobs of each queue in the order of their requests, in up to {@link JOB_QUEUES} processes at once.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * const pool = new JobPool({ entry_url: import.meta.resolve("../../cli.ts") });
 * const request = { roots: [await Deno.realPath("fixtures/models")] };
 * const { models } = await pool.run("find_models", request, new AbortController().signal);
 * assert.ok(models.some(({ path }) => path.endsWith("tiny-agent-f16.gguf")));
 * await pool.close();
 * ```
 */
export class JobPool implements JobRunner {
  readonly #options: JobPoolOptions;
  readonly #queues = mapQueues((processes) => new Semaphore(processes));
  readonly #closed = new AbortController();
  #idle: Idle[] = [];
  #ending = new Set<Promise<void>>();

  constructor(options: JobPoolOptions) {
    this.#options = options;
  }

  async run<N extends JobName>(
    name: N,
    request: JobTypes[N]["request"],
    signal: AbortSignal,
  ): Promise<JobTypes[N]["answer"]> {
    const either = AbortSignal.any([signal, this.#closed.signal]);
    const { doing, queue } = this.#spec(name), slots = this.#queues[queue(request)];
    if (slots.waiting >= MAX_WAITING_JOBS) throw full(doing);
    return await slots.use(1, either, async () => {
      try {
        return await this.#runOnce(name, request, either);
      } catch (error) {
        if (!(error instanceof ServiceError) || error.details.killed_by === undefined) throw error;
        // Another program, such as a system short of memory, killed the process. A job changes nothing, so it can be repeated.
        return await this.#runOnce(name, request, either);
      }
    });
  }

  async #runOnce<N extends JobName>(
    name: N,
    request: JobTypes[N]["request"],
    signal: AbortSignal,
  ): Promise<JobTypes[N]["answer"]> {
    const { doing, limits, ...spec } = this.#spec(name);
    const needs = spec.needs(request), { memory_bytes } = limits;
    const key = JSON.stringify([memory_bytes, needs]);
    const process = this.#takeIdle(key) ??
      new JobProcess({ entry_url: this.#options.entry_url, needs, memory_bytes });
    try {
      const line = await process.ask({ name, request }, { doing, limits, signal });
      this.#keep(key, process);
      return answerOf(line) as JobTypes[N]["answer"];
    } catch (error) {
      if (!this.#idle.some((idle) => idle.process === process)) this.#end(process);
      throw error;
    }
  }

  #spec<N extends JobName>(name: N): JobSpec<JobTypes[N]["request"]> {
    return (this.#options.jobs ?? JOBS)[name];
  }

  /** Ends all processes and refuses all jobs, also later ones, as busy. Resolves when the processes are gone. */
  async close(): Promise<void> {
    this.#closed.abort(
      new ServiceError("device_unavailable", "Cannot finish the job: the server is stopping", {
        retry_after_seconds: CLOSED_RETRY_SECONDS,
      }),
    );
    for (const { process, timer } of this.#idle) {
      clearTimeout(timer);
      this.#end(process);
    }
    this.#idle = [];
    // The jobs that fail now end their processes after this turn of the event loop.
    await nextTurn();
    await Promise.all(this.#ending);
  }

  #takeIdle(key: string): JobProcess | null {
    const at = this.#idle.findIndex((idle) => idle.key === key);
    if (at < 0) return null;
    const [{ process, timer }] = this.#idle.splice(at, 1) as [Idle];
    clearTimeout(timer);
    return process;
  }

  /** Keeps a process for the next job on its files. Ends the oldest idle process when there are too many. */
  #keep(key: string, process: JobProcess): void {
    const timer = setTimeout(() => {
      this.#idle = this.#idle.filter((idle) => idle.process !== process);
      this.#end(process);
    }, IDLE_MS);
    Deno.unrefTimer(timer as unknown as number);
    this.#idle.push({ key, process, timer });
    if (this.#idle.length <= IDLE_PROCESSES) return;
    const oldest = this.#idle.shift()!;
    clearTimeout(oldest.timer);
    this.#end(oldest.process);
  }

  #end(process: JobProcess): void {
    const ended = process.close();
    this.#ending.add(ended);
    ended.finally(() => this.#ending.delete(ended));
  }
}

function mapQueues<T>(valueOf: (processes: number) => T): Record<JobQueue, T> {
  const entries = Object.entries(JOB_QUEUES).map(([queue, processes]) => [queue, valueOf(processes)]);
  return Object.fromEntries(entries) as Record<JobQueue, T>;
}

/** The refusal of a job whose queue is full. */
function full(doing: string): ServiceError {
  const message = `Cannot ${doing}: ${MAX_WAITING_JOBS} requests like this one wait already; try again later`;
  return new ServiceError("device_unavailable", message, { retry_after_seconds: RETRY_AFTER_SECONDS });
}
