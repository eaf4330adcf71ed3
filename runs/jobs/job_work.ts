/** The code of every job. A process loads only what its jobs need. */

import { withCheckedFiles } from "../../core/regular_file.ts";
import type { JobName, JobTypes } from "./job_table.ts";

/** Does the work of a job. */
type Work<N extends JobName> = (request: JobTypes[N]["request"]) => Promise<JobTypes[N]["answer"]>;

export const JOB_WORK: { readonly [N in JobName]: Work<N> } = {
  check_dataset: async (request) => (await import("../datasets/check_dataset.ts")).checkDataset(request),
  preview_rows: async (request) => (await import("../datasets/preview_rows.ts")).previewRows(request),
  row_tokens: async (request) => (await import("../datasets/row_tokens.ts")).rowTokens(request),
  tokenize_dataset: async (request) =>
    (await import("../datasets/tokenize_dataset.ts")).tokenizeDataset(request),
  find_models: async (request) => (await import("../models/find_models.ts")).findModels(request),
  plan_run: async (request) => {
    const { planRequest } = await import("../plan/plan_request.ts");
    // A configuration names files by path, and their readers open them by path.
    return await withCheckedFiles(request.files, () => planRequest(request));
  },
  plan_serving: async (request) => (await import("../plan/plan_serving.ts")).planServing(request),
  describe_models: async (request) => (await import("../models/describe_models.ts")).describeModels(request),
};
