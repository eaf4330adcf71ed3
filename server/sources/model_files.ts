/** The model files under `path_roots`, described from their headers. Descriptions are kept while a file is unchanged. */

import { ServiceError } from "../../core/errors.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import type { ModelDescription } from "../../runs/models/describe_models.ts";
import type { FoundModel, FoundModels } from "../../runs/models/find_models.ts";
import { realRoots } from "../access/paths.ts";

/** Files of one job; if it exceeds a limit, each gets a job of its own. */
const FILES_OF_A_JOB = 20;

/** The most kept descriptions. */
const MAX_KEPT = 10_000;

export interface ModelFilesOptions {
  /** `path_roots` of the configuration. */
  roots: readonly string[];
  jobs: JobRunner;
  /** Called when a search has ended at a limit, and the one before had not; absent: nobody is told. */
  incomplete?: () => void;
}

export class ModelFiles {
  readonly #options: ModelFilesOptions;
  readonly #kept = new Map<string, ModelDescription>();
  #was_complete = true;

  constructor(options: ModelFilesOptions) {
    this.#options = options;
  }

  /** The files by path, without their descriptions; not all of them when a limit ended the search. */
  async find(signal: AbortSignal): Promise<FoundModels> {
    const { roots: configured, jobs, incomplete } = this.#options, roots = await realRoots(configured);
    if (roots.length === 0) return { models: [], complete: true };
    const found = await jobs.run("find_models", { roots }, signal);
    if (!found.complete && this.#was_complete) incomplete?.();
    this.#was_complete = found.complete;
    return found;
  }

  /** The descriptions of found files, in order. For a file that exceeds a limit, the description has this as a problem. */
  async describe(found: readonly FoundModel[], signal: AbortSignal): Promise<ModelDescription[]> {
    const keyOf = ({ file, size_bytes, modified_ms }: FoundModel) =>
      JSON.stringify([file.path, file.dev, file.ino, size_bytes, modified_ms]);
    const unknown = found.filter((model) => !this.#kept.has(keyOf(model)));
    const described = new Map<string, ModelDescription>();
    for (let i = 0; i < unknown.length; i += FILES_OF_A_JOB) {
      const group = unknown.slice(i, i + FILES_OF_A_JOB);
      const descriptions = await this.#describe(group.map(({ file }) => file), signal);
      for (const [j, model] of group.entries()) described.set(keyOf(model), descriptions[j]!);
    }
    for (const [key, description] of described) {
      if (this.#kept.size >= MAX_KEPT) this.#kept.clear();
      this.#kept.set(key, description);
    }
    return found.map((model) => described.get(keyOf(model)) ?? this.#kept.get(keyOf(model))!);
  }

  async #describe(files: CheckedFile[], signal: AbortSignal): Promise<ModelDescription[]> {
    try {
      return await this.#options.jobs.run("describe_models", { files }, signal);
    } catch (error) {
      if (!(error instanceof ServiceError) || error.details.limit === undefined) throw error;
      const { code, message, details } = error;
      if (files.length === 1) return [{ kind: null, error: { code, message, details } }];
      const descriptions: ModelDescription[] = [];
      for (const file of files) descriptions.push(...await this.#describe([file], signal));
      return descriptions;
    }
  }
}
