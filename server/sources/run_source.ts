/** The source of runs for route handlers. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { RunRecord } from "../../runs/record/run.ts";

/** A run and the places of its files. */
export interface StoredRun {
  record: RunRecord;
  /** The run's folder (`runs/directory/run_directory.ts`); null in view mode, which has only trajectories. */
  directory: string | null;
  /** The bytes of the event log that are on disk: answers have no more of it. Absent: nobody writes to it. */
  log_bytes?: number;
  /** The observe directory; null when the run exports no trajectories. */
  trajectories: string | null;
  /** The folder of its checkpoints; null in view mode. */
  checkpoints: string | null;
  /** Resolved, with the run's own paths; null in view mode. */
  config: ResolvedConfig | null;
  /** In the form for clients: with catalogue ids and paths as written, without the run's own; null in view mode. */
  shown_config: Readonly<Record<string, unknown>> | null;
}

/** The runs that a server shows. */
export interface RunSource {
  /** A run by its id; null when there is none. */
  find(id: string): Promise<StoredRun | null>;
}

/** A source without runs. */
export const NO_RUNS: RunSource = { find: () => Promise.resolve(null) };
