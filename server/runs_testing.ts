/** Runs with logs written by hand for the server's tests. */

import { ManualClock } from "../core/clock_fake.ts";
import type { ResolvedConfig } from "../config/check/derive.ts";
import { testConfig } from "../runs/config_testing.ts";
import { withoutOwnPaths } from "../runs/directory/config_identity.ts";
import { eventsPathOf } from "../runs/directory/run_directory.ts";
import type { EventData } from "../runs/record/event.ts";
import { EventLog } from "../runs/record/event_log.ts";
import type { RunRecord, RunState } from "../runs/record/run.ts";
import type { RunSource, StoredRun } from "./sources/run_source.ts";

/** What an evaluation on scenarios, of which none failed, says about rows, failures and other values. */
export const SCENARIOS_ONLY = {
  ...{ loss: null, perplexity: null, values: {}, rows: null, row_losses: [] },
  ...{ failed: {}, failure: null },
};

/** Appends events to the log of a run directory, a second after each other. */
export async function writeEvents(directory: string, events: readonly EventData[]): Promise<void> {
  await Deno.mkdir(directory, { recursive: true });
  const clock = new ManualClock(Date.UTC(2026, 0, 1));
  const log = await EventLog.open(eventsPathOf(directory), { run: "run_A", clock });
  for (const event of events) {
    log.append(event);
    await clock.advance(1000);
  }
  await log.close();
}

/** A metrics event; its step is the update. */
export function metrics(update: number, values: Record<string, number>): EventData {
  return { kind: "metrics", update, step: update, values };
}

/** The event with which a resumed run continues after an update. */
export function resumed(update: number, state: RunState = "starting"): EventData {
  const checkpoint = update === 0 ? null : `update_00000${update}`;
  return { kind: "state", state, reason: null, detail: null, update, checkpoint };
}

/** A run whose files are in `<root>/runs/<id>`. */
export function storedRun(
  root: string,
  id: string,
  change: (config: ResolvedConfig) => void = () => {},
): StoredRun {
  const directory = `${root}/runs/${id}`, config = testConfig(root);
  config.run.directory = directory;
  config.output.path = `${directory}/adapter.gguf`;
  change(config);
  const record: RunRecord = {
    format_version: 1,
    id,
    name: id.toLowerCase(),
    algorithm: config.run.algorithm,
    state: "completed",
    state_reason: null,
    config_hash: "",
    created_at: "2026-01-01T00:00:00.000Z",
    started_at: null,
    ended_at: null,
    parent: null,
    error: null,
    deterministic: true,
  };
  return {
    record,
    directory,
    trajectories: `${directory}/trajectories`,
    checkpoints: `${directory}/checkpoints`,
    config,
    shown_config: withoutOwnPaths(config),
  };
}

/** A source of these runs. */
export function runsOf(...runs: readonly StoredRun[]): RunSource {
  return { find: (id) => Promise.resolve(runs.find(({ record }) => record.id === id) ?? null) };
}
