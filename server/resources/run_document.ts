/** A server's run as the API shows it. */

import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import type { RunSource, StoredRun } from "../sources/run_source.ts";
import type { RunCard } from "./run_schema.ts";
import { resolvePaths } from "../../config/check/derive.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";

/** The document of a run. */
export function runDocument(run: ManagedRun): RunCard {
  const { record, service, progress, last_metrics } = run;
  const { id, algorithm, state, state_reason, created_at, started_at, ended_at, error, deterministic } =
    record;
  const { name, notes, tags, plan, parent } = service;
  return {
    ...{ id, name, notes, tags, algorithm: algorithm as RunCard["algorithm"], state, state_reason },
    ...{ created_at, started_at, ended_at, progress },
    config: plan.config as unknown as Record<string, unknown>,
    plan: plan as unknown as NonNullable<RunCard["plan"]>,
    parent,
    error: error && { ...error, trace_id: null },
    deterministic,
    last_metrics,
  };
}

/** The places of a server's run in its folder. */
export function ownPlaces(directory: string): { run: { directory: string }; output: { peft_dir: string } } {
  return { run: { directory }, output: { peft_dir: `${directory}/adapter_peft` } };
}

/** A configuration with the run's own paths. */
function placedConfig(config: ResolvedConfig, directory: string): ResolvedConfig {
  const { run, output } = ownPlaces(directory);
  const placed = { ...config, run: { ...config.run, ...run }, output: { ...config.output, ...output } };
  return { ...placed, ...resolvePaths(placed, `${directory}/run.toml`) } as ResolvedConfig;
}

/** The runs of a fleet, for the handlers that read their files. */
export class FleetRuns implements RunSource {
  readonly #fleet: Fleet;

  constructor(fleet: Fleet) {
    this.#fleet = fleet;
  }

  find(id: string): Promise<StoredRun | null> {
    const run = this.#fleet.get(id);
    if (!run) return Promise.resolve(null);
    const { directory, checkpointRoot: checkpoints, service } = run;
    // The service's record has the name that a client gave it last.
    const record = { ...run.record, name: service.name };
    const { config: shown } = service.plan, shown_config = shown as unknown as Record<string, unknown>;
    const config = placedConfig(shown, directory), trajectories = config.observe?.directory ?? null;
    const log_bytes = run.feed.place.offset;
    return Promise.resolve({
      ...{ record, directory, log_bytes, trajectories, checkpoints, config, shown_config },
    });
  }
}
