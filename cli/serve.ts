/** Runs the server until it is told to stop, for `svc-server` and `svc server`. */

import { fileURLToPath } from "node:url";
import { findEngine } from "../agent/environment/container_engine.ts";
import type { ServerConfig } from "../config/server/schema.ts";
import { loadServerConfig, parseServerConfig } from "../config/server/load.ts";
import { pathKeys } from "../config/check/request_keys.ts";
import { systemClock } from "../core/clock.ts";
import { deviceFolder, deviceHolders, deviceOwner } from "../core/device_lock.ts";
import { errorText } from "../core/errors.ts";
import { entryFlags, PERMISSION_FLAGS, WORKER_FLAGS } from "../core/deno_flags.ts";
import { makeFolder } from "../core/files.ts";
import { Log } from "../core/log.ts";
import { VERSION } from "../core/version.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { DirectoryLock } from "../runs/directory/directory_lock.ts";
import { hasEnded } from "../runs/record/run.ts";
import { Fleet } from "../runs/fleet/fleet.ts";
import { makeRecordings } from "../runs/fleet/recordings.ts";
import { Serving } from "../runs/serving/serving.ts";
import { JobPool } from "../runs/jobs/job_pool.ts";
import { listen, type ListeningServer } from "../server/listen/listen.ts";
import { servingPlanner } from "../server/requests/plan_serving.ts";
import { FleetRuns } from "../server/resources/run_document.ts";
import type { Availability, ProbedDevice } from "../server/routing/services.ts";
import { probeDevices } from "./device_probe.ts";
import { type Database, openDatabase } from "../server/store/database.ts";
import { EXIT, type ExitCode } from "./exit_codes.ts";
import { loadInterface } from "./interface.ts";
import { type StopSignals, stopSignals } from "./signals.ts";
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

/** The time for runs to write a checkpoint and leave, and for jobs. */
const SHUTDOWN_MS = 8000;

/** The time for everything to stop. */
const STOP_MS = 9500;

/** The time for the log's reader to take its last lines. */
const FLUSH_MS = 500;

/** How a run's process is started: as this program, with its permissions. */
function svcCommand(entry_url: string): (args: readonly string[]) => readonly string[] {
  if (Deno.build.standalone) return (args) => [...svcBinary(), ...args];
  const flags = [...entryFlags(), ...WORKER_FLAGS, ...PERMISSION_FLAGS];
  return (args) => [Deno.execPath(), "run", ...flags, fileURLToPath(entry_url), ...args];
}

/** Probes once; again after a failure. */
function deviceProbe(entry_url: string): () => Promise<ProbedDevice[]> {
  let probed: Promise<ProbedDevice[]> | null = null;
  return () => {
    if (probed) return probed;
    const probing = probed = probeDevices(entry_url);
    probing.catch(() => probed = null);
    return probing;
  };
}

/** Finds an engine once; until then each call asks again: somebody may have installed or started one. Never throws. */
function containerProbe(): () => Promise<Availability> {
  let is_found = false;
  return async () => {
    if (is_found) return { available: true, reason: null };
    try {
      await findEngine();
      is_found = true;
      return { available: true, reason: null };
    } catch (error) {
      return { available: false, reason: errorText(error) };
    }
  };
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

/** Writes the server's log to standard error: as JSON lines, which a service manager collects. */
function serverLog({ log: { level } }: ServerConfig): Log {
  return new Log({ clock: systemClock, level, write: (bytes) => Deno.stderr.write(bytes) });
}

/** Everything of a server that has to be closed. */
interface Opened {
  server: ListeningServer;
  fleet: Fleet;
  jobs: JobPool;
  database: Database;
}

async function open(
  config: ServerConfig,
  { entry_url, log }: { entry_url: string; log: Log },
): Promise<Opened> {
  // A run's process reads files in this folder only by paths without links.
  const data_dir = await Deno.realPath(config.data_dir), runs_folder = `${data_dir}/runs`;
  const jobs = new JobPool({ entry_url }), conversations = `${data_dir}/conversations`;
  const database = openDatabase(`${data_dir}/index.sqlite`, { clock: systemClock, log: log.line });
  const fleet = await Fleet.open({
    folder: runs_folder,
    slots: config.max_concurrent_runs,
    max_queued: config.max_queued_runs,
    conversations,
    others: () => deviceHolders({ folder: deviceFolder(), owner: deviceOwner() }),
    clock: systemClock,
    svc: svcCommand(entry_url),
    log: log.line,
  });
  const isDatasetInUse = (id: string) => Promise.resolve(usesDataset(fleet, id));
  const { serving: { enabled, idle_seconds, record } } = config;
  const devices = { probeDevices: deviceProbe(entry_url), assumed_device: assumedDevice() };
  if (record) await makeRecordings(conversations);
  const serving = enabled && new Serving({
    ...{ fleet, runs_folder, idle_seconds, clock: systemClock, log: log.line },
    recordings: record ? conversations : null,
    plan: servingPlanner(config, { jobs, ...devices }),
    svc: svcCommand(entry_url),
  });
  const interface_files = await loadInterface();
  const server = await listen(config, {
    ...devices,
    interface_files,
    probeContainers: containerProbe(),
    ...{ jobs, fleet, changes: fleet.changes, runs: new FleetRuns(fleet), isDatasetInUse, database },
    ...{ log: log.line, logRequest: log.line, ...(serving ? { serving } : {}) },
  });
  return { server, fleet, jobs, database };
}

/**
 * Closes everything; live runs write a checkpoint first. Jobs that take longer are refused then, so that their requests
 * get an answer before their connections are closed.
 */
async function close({ server, fleet, jobs, database }: Opened): Promise<void> {
  const closed = new AbortController();
  const refusing = systemClock.sleep(SHUTDOWN_MS, closed.signal).then(() => jobs.close(), () => {});
  await Promise.all([server.close(), fleet.close(SHUTDOWN_MS)]);
  closed.abort();
  await refusing;
  await jobs.close();
  database.close();
}

/** Waits for the signal to stop, then stops. @returns The exit status. */
async function untilStopped(
  opened: Opened,
  { signals, log }: { signals: StopSignals; log: Log },
): Promise<ExitCode> {
  const first = await signals.first;
  log.line({ level: "info", message: `svc-server stops: ${first}` });
  const timer = new AbortController();
  const code = await Promise.race([
    close(opened).then(() => EXIT.done),
    signals.second.then(() => EXIT.interrupted),
    systemClock.sleep(STOP_MS, timer.signal).then(() => EXIT.failed),
  ]);
  timer.abort();
  if (code === EXIT.done) log.line({ level: "info", message: "svc-server has stopped" });
  else {
    const why = code === EXIT.failed ? `it takes longer than ${STOP_MS} ms` : "a second signal came";
    log.line({ level: "error", message: `Cannot stop in good order: ${why}; runs end without a checkpoint` });
    // Runs die with their processes, which the next server shows as interrupted.
    opened.fleet.close(0).catch(() => {});
  }
  await Promise.race([log.flushed(), systemClock.sleep(FLUSH_MS)]);
  return code;
}

/**
 * Listens as configured and resolves when the server has stopped.
 *
 * @returns The exit status.
 * @throws {ServiceError} Problems of the configuration or the address.
 */
export async function serve(path: string | null, { entry_url, terminal }: ServeOptions): Promise<ExitCode> {
  const config = await configOf(path), log = serverLog(config);
  await makeFolder(config.data_dir);
  const lock = await DirectoryLock.take(config.data_dir, "data_dir");
  try {
    const signals = stopSignals();
    const opened = await open(config, { entry_url, log });
    // Only now: with its address taken the server would end, and interrupt them.
    opened.fleet.startQueued();
    const { address } = opened.server;
    const started = `svc-server listens at http://${address} (Ctrl-C stops it)`;
    if (Deno.stderr.isTerminal()) terminal.error(started);
    else log.line({ level: "info", message: started, address, version: VERSION, pid: Deno.pid });
    return await untilStopped(opened, { signals, log });
  } finally {
    lock.close();
  }
}
