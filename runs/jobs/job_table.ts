/**
 * The jobs: work on a client's files that can take long or be hostile. A job runs in a process of its own
 * (`job_pool.ts`). A new job needs its types and its entry here, and its code in `job_work.ts`.
 */

import type { PermissionNeeds } from "../../core/permissions.ts";
import type { DatasetCheck, DatasetCheckRequest } from "../datasets/check_dataset.ts";
import type { PreviewPage, PreviewRequest } from "../datasets/preview_rows.ts";
import type { RowTokens, RowTokensRequest } from "../datasets/row_tokens.ts";
import type { TokenizeRequest, TokenizeSummary } from "../datasets/tokenize_dataset.ts";
import type { ModelDescription, ModelsRequest } from "../models/describe_models.ts";
import type { FoundModels, ModelRootsRequest } from "../models/find_models.ts";
import type { PlanAnswer, PlanJobRequest } from "../plan/plan_request.ts";
import { planNeeds } from "../plan/plan_needs.ts";
import type { ServingPlan, ServingPlanRequest } from "../plan/plan_serving.ts";

/** The check of an upload. */
export interface UploadCheckRequest extends DatasetCheckRequest {
  /** The size of the file, which decides about the queue of the job. */
  size_bytes: number;
}

/** Request and answer of every job: plain JSON data. */
export interface JobTypes {
  check_dataset: { request: UploadCheckRequest; answer: DatasetCheck };
  preview_rows: { request: PreviewRequest; answer: PreviewPage };
  row_tokens: { request: RowTokensRequest; answer: RowTokens };
  tokenize_dataset: { request: TokenizeRequest; answer: TokenizeSummary };
  find_models: { request: ModelRootsRequest; answer: FoundModels };
  describe_models: { request: ModelsRequest; answer: ModelDescription[] };
  plan_run: { request: PlanJobRequest; answer: PlanAnswer };
  plan_serving: { request: ServingPlanRequest; answer: ServingPlan };
}

/** The name of a job. */
export type JobName = keyof JobTypes;

export interface JobLimits {
  /** From the start of the work; waiting for a free process does not count. */
  seconds: number;
  /** For everything in the process: the JavaScript heap, buffers and the runtime. */
  memory_bytes: number;
}

/**
 * The queues of jobs, each with its number of processes, so that a job waits only for others that take about as long.
 * `uploads`: checks of large uploads, up to half an hour; `rows`: plans and token counts, which read all rows, minutes;
 * `views`: everything else, seconds.
 */
export const JOB_QUEUES = { uploads: 1, rows: 2, views: 2 } as const;

export type JobQueue = keyof typeof JOB_QUEUES;

/** An upload above this size is a large one: its check takes about half a minute. */
export const LARGE_UPLOAD_BYTES = 64 << 20;

/** A job as the pool needs it. */
export interface JobSpec<R> {
  /** The queue in which the job waits for a free process. */
  queue(request: R): JobQueue;
  /** Completes "Cannot …" in the refusal of a job that exceeds a limit. */
  doing: string;
  limits: JobLimits;
  /** The permissions of the process, which has no others; mostly to read the files of the request. */
  needs(request: R): PermissionNeeds[];
}

const GIB = 2 ** 30;

/** All jobs by name. */
export const JOBS: { readonly [N in JobName]: JobSpec<JobTypes[N]["request"]> } = {
  check_dataset: {
    queue: ({ size_bytes }) => size_bytes > LARGE_UPLOAD_BYTES ? "uploads" : "views",
    doing: "check the rows",
    // The largest accepted file (4 GiB by default) at 2.3 MiB/s.
    limits: { seconds: 1800, memory_bytes: 2 * GIB },
    needs: ({ path }) => [{ read: [path] }],
  },
  preview_rows: {
    queue: () => "views",
    doing: "read the rows",
    limits: { seconds: 60, memory_bytes: GIB },
    needs: ({ path }) => [{ read: [path] }],
  },
  row_tokens: {
    queue: () => "views",
    doing: "tokenise the row",
    limits: { seconds: 60, memory_bytes: 2 * GIB },
    needs: ({ path, model }) => [{ read: [path, model.path] }],
  },
  tokenize_dataset: {
    queue: () => "rows",
    doing: "tokenise the rows",
    // The job itself stops reading after TOKENIZE_SECONDS.
    limits: { seconds: 120, memory_bytes: 2 * GIB },
    needs: ({ path, model }) => [{ read: [path, model.path] }],
  },
  find_models: {
    queue: () => "views",
    doing: "look for model files",
    // The job itself stops looking after FIND_SECONDS.
    limits: { seconds: 30, memory_bytes: GIB },
    needs: ({ roots }) => [{ read: roots }],
  },
  describe_models: {
    queue: () => "views",
    doing: "read the model file",
    limits: { seconds: 60, memory_bytes: 2 * GIB },
    needs: ({ files }) => [{ read: files.map(({ path }) => path) }],
  },
  plan_run: {
    queue: () => "rows",
    doing: "plan the run",
    // All rows of the data are read and rendered.
    limits: { seconds: 600, memory_bytes: 4 * GIB },
    needs: (request) => planNeeds(request),
  },
  plan_serving: {
    queue: () => "views",
    doing: "plan the memory for serving",
    limits: { seconds: 60, memory_bytes: 2 * GIB },
    needs: ({ demand }) => [{ read: [demand.path] }],
  },
};

/** Runs jobs. */
export interface JobRunner {
  /**
   * @param signal Ends the job.
   * @throws {ServiceError} The job's own errors; `data_invalid` with `details.limit` when it exceeded a limit;
   * `device_unavailable` with `details.retry_after_seconds` when too many jobs wait already, or the server is
   * stopping.
   */
  run<N extends JobName>(
    name: N,
    request: JobTypes[N]["request"],
    signal: AbortSignal,
  ): Promise<JobTypes[N]["answer"]>;
}
