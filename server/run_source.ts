/** Where the handlers find runs. */

import type { ResolvedConfig } from "../config/derive.ts";
import type { RunRecord } from "../runs/record/run.ts";

/** A run and the places of its files. */
export interface StoredRun {
  record: RunRecord;
  /** The run's folder (`runs/directory/run_directory.ts`); null in view mode, which has only trajectories. */
  directory: string | null;
  /** The observe directory; null when the run exports no trajectories. */
  trajectories: string | null;
  /** The folder of its checkpoints; null in view mode. */
  checkpoints: string | null;
  /** Null in view mode. */
  config: ResolvedConfig | null;
}

/** The runs that a server shows. */
export interface RunSource {
  /** A run by its id; null when there is none. */
  find(id: string): Promise<StoredRun | null>;
}

/** A source without runs. */
export const NO_RUNS: RunSource = { find: () => Promise.resolve(null) };
