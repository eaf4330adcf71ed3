/** The one run of view mode, with the facts that its observe directory has. */

import { basename, dirname } from "node:path";
import { algorithmKeys, type AlgorithmName, ALGORITHMS } from "../../config/algorithms.ts";
import type { RunRecord } from "../../runs/record/run.ts";
import { finiteMetrics } from "../../runs/record/finite_metrics.ts";
import type { IndexView } from "../../runs/views/observed_index.ts";
import { ObservedRuns } from "../../runs/views/observed_runs.ts";
import type { RunCard } from "./run_schema.ts";
import type { RunSource } from "../sources/run_source.ts";

/** The id of view mode's run. */
export const VIEW_RUN_ID = "run_view";

/** An observe directory. */
export interface ViewedDirectory {
  path: string;
  /** When it was made or changed, RFC 3339: the only known time of a run without updates. */
  time: string;
}

/** The name of a run that has not written one yet: that of its folder. */
function folderName(path: string): string {
  const name = basename(path);
  return name === "trajectories" ? basename(dirname(path)) : name;
}

/** The algorithm that an update names; without a name, the first algorithm that exports trajectories. */
function algorithmIn(entry: IndexView["updates"][number] | undefined): AlgorithmName {
  return ALGORITHMS.find((name) => name === entry?.algorithm) ??
    ALGORITHMS.find((name) => algorithmKeys(name).has_rollouts)!;
}

/** The run of an index. It is unknown whether a run that has not reached its last update is still running. */
function viewedRun({ updates }: IndexView, { path, time }: ViewedDirectory): RunCard {
  const first = updates[0], last = updates.at(-1);
  const is_complete = last !== undefined && last.update === last.updates;
  const of = last?.updates ? ` of ${last.updates}` : "";
  return {
    id: VIEW_RUN_ID,
    name: last?.run_name ?? folderName(path),
    notes: "",
    tags: [],
    algorithm: algorithmIn(last),
    state: is_complete ? "completed" : "running",
    state_reason: is_complete
      ? null
      : `Update ${
        last?.update ?? 0
      }${of} is the last one in the directory; it is unknown whether the run continues`,
    created_at: first?.time ?? time,
    started_at: null,
    ended_at: is_complete ? last.time : null,
    progress: {
      update: last?.update ?? 0,
      updates: last?.updates ?? null,
      step: last?.step ?? 0,
      eta_seconds: null,
      phase: null,
    },
    config: {},
    plan: null,
    parent: null,
    error: null,
    deterministic: updates.every(({ deterministic }) => deterministic),
    last_metrics: finiteMetrics(last?.metrics ?? {}),
  };
}

function recordOf(card: RunCard): RunRecord {
  const { id, name, algorithm, state, state_reason, created_at, started_at, ended_at, deterministic } = card;
  return {
    format_version: 1,
    ...{ id, name, algorithm, state, state_reason, created_at, started_at, ended_at, deterministic },
    config_hash: "",
    parent: null,
    error: null,
  };
}

/** View mode's source: one run, read again for each request. */
export class ViewSource implements RunSource {
  readonly #directory: ViewedDirectory;

  constructor(directory: ViewedDirectory, readonly trajectories = new ObservedRuns()) {
    this.#directory = directory;
  }

  /** The run as the directory has it now. */
  async card(): Promise<RunCard> {
    return viewedRun(await this.trajectories.in(this.#directory.path).index(), this.#directory);
  }

  async find(id: string) {
    if (id !== VIEW_RUN_ID) return null;
    const record = recordOf(await this.card());
    return {
      record,
      directory: null,
      trajectories: this.#directory.path,
      checkpoints: null,
      config: null,
      shown_config: null,
    };
  }
}
