/** Runs the server until it is told to stop, for `svc-server` and `svc server`. */

import { fileURLToPath } from "node:url";
import type { ServerConfig } from "../config/server/schema.ts";
import { loadServerConfig, parseServerConfig } from "../config/server/load.ts";
import { pathKeys } from "../config/check/request_keys.ts";
import { systemClock } from "../core/clock.ts";
import { entryFlags, PERMISSION_FLAGS, WORKER_FLAGS } from "../core/deno_flags.ts";
import { makeFolder } from "../core/files.ts";
import { jsonText } from "../core/text.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { DirectoryLock } from "../runs/directory/directory_lock.ts";
import { hasEnded } from "../runs/record/run.ts";
import { Fleet } from "../runs/fleet/fleet.ts";
import { JobPool } from "../runs/jobs/job_pool.ts";
import { listen } from "../server/listen/listen.ts";
import { FleetRuns } from "../server/resources/run_document.ts";
import { type ProbedDevice, probeDevices } from "./device_probe.ts";
import { openDatabase } from "../server/store/database.ts";
import { onLeaveSignal } from "./signals.ts";
import { svcBinary } from "./svc_arguments.ts";
import type { Terminal } from "./terminal.ts";

export interface ServeOptions {
  /** The program's entry file, for the device probe, jobs and runs. */
  entry_url: string;
  terminal: Terminal;
}

/** Loads a configuration file; without one, uses the defaults with paths in the current directory. */
async function configOf(path: string | null): Promise<ServerConfig> {
  return path === null
    ? parseServerConfig("", { path: `${Deno.cwd()}/server.toml` })
    : await loadServerConfig(path);
}

/** The time for runs to write a checkpoint and leave. */
const LEAVE_MS = 8000;

/** How a run's process is started: as this program, with its permissions. */
function svcCommand(entry_url: string): (args: readonly string[]) => readonly string[] {
  if (Deno.build.standalone) return (args) => [...svcBinary(), ...args];
  const flags = [...entryFlags(), ...WORKER_FLAGS, ...PERMISSION_FLAGS];
  return (args) => [Deno.execPath(), "run", ...flags, fileURLToPath(entry_url), ...args];
}

function assumedDevice(): ProbedDevice {
  const { facts, subgroup_size } = assumedGpu();
  return { ...facts, subgroup_size };
}

/** Whether a run that has not ended names a dataset. */
function usesDataset(fleet: Fleet, id: string): boolean {
  return fleet.list().some(({ record, service: { plan: { config } } }) =>
    !hasEnded(record.state) && pathKeys(config, "input").some(({ value }) => value === id)
  );
}

/** Resolves at the first signal to stop. */
export function stopSignal(): Promise<void> {
  return new Promise((resolve) => {
    const release = onLeaveSignal(() => {
      release();
      resolve();
    });
  });
}

/**
 * Listens as configured and resolves when the server has stopped.
 *
 * @throws {ServiceError} Problems of the configuration or the address.
 */
export async function serve(path: string | null, { entry_url, terminal }: ServeOptions): Promise<void> {
  const config = await configOf(path);
  const log = (line: Record<string, unknown>) =>
    terminal.error(jsonText({ time: new Date().toISOString(), ...line }));
  await makeFolder(config.data_dir);
  const lock = await DirectoryLock.take(config.data_dir, "data_dir");
  try {
    const jobs = new JobPool({ entry_url });
    const database = openDatabase(`${config.data_dir}/index.sqlite`, { clock: systemClock, log });
    const fleet = await Fleet.open({
      folder: `${config.data_dir}/runs`,
      slots: config.max_concurrent_runs,
      max_queued: config.max_queued_runs,
      clock: systemClock,
      svc: svcCommand(entry_url),
      log,
    });
    const isDatasetInUse = (id: string) => Promise.resolve(usesDataset(fleet, id));
    const server = await listen(config, {
      ...{ probeDevices: () => probeDevices(entry_url), assumedDevice: assumedDevice() },
      ...{ jobs, fleet, changes: fleet.changes, runs: new FleetRuns(fleet), isDatasetInUse, database, log },
    });
    // Only now: with its address taken the server would end, and interrupt them.
    fleet.startQueued();
    terminal.error(`svc-server listens at http://${server.address} (Ctrl-C stops it)`);
    await stopSignal();
    await Promise.all([server.close(), fleet.close(LEAVE_MS)]);
    await jobs.close();
    database.close();
  } finally {
    lock.close();
  }
}
