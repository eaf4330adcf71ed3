/** Runs a training from configuration to end in this process, for `svc train` and for a child process of the server. */

import { resolve } from "node:path";
import { killLeftovers } from "../../agent/environment/leftovers.ts";
import { removeWorkspaces } from "../../agent/environment/workspace.ts";
import { JUDGE_KEY } from "../../agent/judge/api_judge.ts";
import type { LoadedConfig } from "../../config/check/load.ts";
import { AsyncQueue } from "../../core/async_queue.ts";
import { readKey } from "../../core/chat_api/endpoint.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { makeFolder } from "../../core/files.ts";
import { realPathOf } from "../../core/real_path.ts";
import {
  type Checkpoint,
  listCheckpoints,
  loadCheckpoint,
  newestCheckpoint,
  repairCheckpoints,
} from "../directory/checkpoint.ts";
import { checkFork, identityHash, refuseChanges } from "../directory/config_identity.ts";
import { forkedCheckpoint, keptRate, refuseLostParent, rescaledWarnings } from "../directory/fork.ts";
import { type Place, refuseCollisions } from "../directory/places.ts";
import { RunDirectory } from "../directory/run_directory.ts";
import { checkWritable } from "../directory/writable.ts";
import { type PreparedRun, prepareRun } from "../plan/prepare.ts";
import type { Activity } from "../record/activity.ts";
import type { EndEvent, RunEvent } from "../record/event.ts";
import { EventLog, readEvents } from "../record/event_log.ts";
import { writeMetricsCsv } from "../record/metrics_csv.ts";
import { commandRefusal, isLive, type RunState } from "../record/run.ts";
import { appendTextLog } from "../record/text_log.ts";
import { openWorkerSession, type Session } from "../session/session.ts";
import type { ControlPort } from "./control.ts";
import { endEvent } from "./end_event.ts";
import { LiveRun } from "./live_run.ts";
import { recordingsAt, replaySource } from "./replay.ts";
import { Supervisor } from "./supervisor.ts";

export interface StartRunOptions {
  loaded: LoadedConfig;
  /** The program's entry file, from which its workers start. */
  entry_url: string;
  /** `resume`: continue from the newest complete checkpoint. `fork`: start with the state of a checkpoint. */
  mode: "new" | "resume" | "fork";
  /** The folder of the checkpoint to fork. */
  checkpoint: string | null;
  /** Replace the output of an earlier run. */
  force: boolean;
  /** The folder of a run whose recordings answer in place of tools, environments and graders. Absent: none. */
  replay?: string;
  control?: ControlPort;
  /** The id of the run that a server has prepared in the directory. Absent: this process makes one. */
  adopt?: string;
  /** The learning rate that a command set for this run before it starts or continues. Absent: none. */
  learning_rate?: number;
}

/** A started run. */
export interface StartedRun {
  /** All events of this process, once they are on disk; the last is an `end`. */
  events: AsyncIterable<RunEvent>;
  /** The activity between events, for one reader; it ends with the run. */
  activity: AsyncIterable<Activity>;
  /** Finishes the update, writes a checkpoint if configured, and ends. */
  stop(): void;
  /** The run's state when the process ends. */
  ended: Promise<RunState>;
}

/**
 * Starts or resumes a run.
 *
 * @throws {ServiceError} Problems of the configuration, the data, the directory, the model or the machine before the
 * first update. A new run then leaves no files.
 */
export async function startRun(options: StartRunOptions): Promise<StartedRun> {
  const { loaded, checkpoint: parent, replay: replayed } = options;
  const recordings = replayed === undefined ? undefined : recordingsAt(replayed);
  const read: Place[] = [
    { key: "--fork", path: parent === null ? null : resolve(parent) },
    { key: "--replay", path: recordings ?? null },
  ].flatMap(({ key, path }) => path === null ? [] : [{ key, path, kind: "input_folder" as const }]);
  await refuseCollisions(loaded, read);
  // A server's run has the files that a client named.
  const prepared = await prepareRun(loaded, { by_client: options.adopt !== undefined, recordings });
  const replay = replayed === undefined ? null : await replaySource(replayed, prepared);
  const { config, files } = prepared;
  await checkWritable(config);
  // A server's run fails with this when it begins: its client cannot change the server's variables. A replay asks nobody.
  if (options.adopt === undefined && replay === null) readKey(config.agent?.judge?.api_key_env, JUDGE_KEY);
  const checkpoint = parent && await realPathOf(resolve(parent));
  const { entry_url } = options;
  return await startPrepared(prepared, {
    ...options,
    checkpoint,
    clock: systemClock,
    openSession: async () => {
      const folder = workspacesOf(config.run.directory);
      await killLeftovers(folder);
      await removeWorkspaces(folder);
      await makeFolder(folder);
      // Workers may write only to the real folder.
      const workspaces = await Deno.realPath(folder);
      const readable = checkpoint ? [checkpoint] : [];
      return openWorkerSession({ config, files, entry_url, workspaces, readable, replay });
    },
  });
}

export interface StartPreparedOptions
  extends Pick<StartRunOptions, "mode" | "checkpoint" | "force" | "adopt" | "learning_rate"> {
  control?: ControlPort;
  clock: Clock;
  /** Starts an engine and a host of rollouts; again after a lost device. */
  openSession: () => Promise<Session>;
}

/**
 * Like {@link startRun}, with a given session.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
 * import { eventsOf, startTestRun } from "../run_fake.ts";
 *
 * // A complete run with `startPrepared`: a scripted engine, episodes of one word, no GPU.
 * const root = await Deno.makeTempDir();
 * const run = await startTestRun({ root, newEngine: (refuse) => new ScriptedEngine({ refuse }).client });
 * const events = await eventsOf(run);
 * assert.equal(await run.ended, "completed");
 * assert.equal(events.at(-1)!.kind, "end");
 * await Deno.remove(root, { recursive: true });
 * ```
 */
export async function startPrepared(
  prepared: PreparedRun,
  options: StartPreparedOptions,
): Promise<StartedRun> {
  const { config, identity } = prepared;
  const directory = await RunDirectory.open({ ...options, config, identity });
  const { clock } = options;
  const is_new = options.adopt === undefined && directory.record.state === "starting";
  const events = new AsyncQueue<RunEvent>();
  let log: EventLog | null = null;
  const release = async () => {
    await removeWorkspaces(workspacesOf(directory.path));
    try {
      await log?.close();
    } finally {
      directory.close();
    }
  };
  try {
    log = await EventLog.open(directory.eventsPath, {
      run: directory.record.id,
      clock,
      on_durable(batch) {
        appendTextLog(directory.logPath, batch);
        events.push(...batch);
        options.control?.send({ durable_seq: batch.at(-1)!.seq });
      },
    });
    const run = new LiveRun({ config, directory, log, clock, identity });
    if (run.runState === "completed") {
      const ended = await replayEnd(run, prepared, events);
      await release();
      events.close();
      run.activity.close();
      return { events, activity: run.activity, stop: () => {}, ended: Promise.resolve(ended) };
    }
    const supervisor = await begin(run, prepared, options);
    const ended = supervisor.train().finally(() => run.activity.close()).then(
      async (state) => {
        await release();
        return state;
      },
      async (error) => {
        // Report the first failure: a full disk also breaks the log.
        await release().catch(() => {});
        throw asFailure(error);
      },
    );
    ended.then(() => events.close(), (error) => events.fail(error));
    return { events, activity: run.activity, stop: () => supervisor.stop(), ended };
  } catch (error) {
    if (is_new) await directory.discard();
    await release().catch(() => {});
    throw error;
  }
}

/** The folder for workspaces in a run's folder. */
const workspacesOf = (directory: string) => `${directory}/workspaces`;

/** An error that ends a started run is a failure, not a wrong configuration. */
function asFailure(error: unknown): unknown {
  if (!(error instanceof ServiceError)) return error;
  return new ServiceError("internal", error.message, error.details, { cause: error });
}

async function begin(
  run: LiveRun,
  prepared: PreparedRun,
  options: StartPreparedOptions,
): Promise<Supervisor> {
  const from = await startingPoint(run, prepared, options);
  if (options.mode === "resume") await run.directory.writeConfig();
  run.restore(from);
  if (options.learning_rate !== undefined) run.setLearningRate(options.learning_rate);
  const supervisor = new Supervisor({ ...options, prepared, run, from });
  try {
    await supervisor.begin();
    if (options.adopt === undefined) await run.directory.commit();
    // This comes last: the run that --force replaces has been removed, and the new run can no longer be refused.
    await run.restoreBestAdapter(from);
    await run.restoreJudgements(from);
    return supervisor;
  } catch (error) {
    await supervisor.close();
    // The server that started this process writes why the run failed.
    if (options.adopt === undefined && isLive(run.runState)) await run.transition("interrupted");
    throw error;
  }
}

/** The process of a run that is completed already: it repeats the end of the log, and writes a missing metrics file. */
async function replayEnd(
  run: LiveRun,
  prepared: PreparedRun,
  events: AsyncQueue<RunEvent>,
): Promise<RunState> {
  const { csv } = run.config.metrics;
  const newest = await newestCheckpoint(run.checkpointRoot, () => {});
  if (newest) refuseChanges(newest.record.config, prepared.identity, run.directory.path);
  else if (run.directory.record.config_hash !== identityHash(prepared.identity)) {
    throw new ServiceError(
      "conflict",
      `Cannot resume the run in ${run.directory.path}: it is completed, and the configuration or its data changed ` +
        "since; start a new run",
    );
  }
  if (csv !== undefined && !await Deno.stat(csv).then(() => true, () => false)) {
    await writeMetricsCsv(run.directory.eventsPath, csv);
  }
  let end: RunEvent | null = null;
  for await (const event of readEvents(run.directory.eventsPath)) if (event.kind === "end") end = event;
  if (end?.kind === "end" && end.state === "completed") {
    refuseOtherAdapter(end, run.config.output.adapter);
    events.push(end);
    return "completed";
  }
  // The process died, or the disk was full, between the record and its last event.
  run.restore(newest);
  run.emit(endEvent(run, "completed"));
  await run.flush();
  return "completed";
}

/** The checkpoint to continue from; null for a new run. */
async function startingPoint(
  run: LiveRun,
  prepared: PreparedRun,
  { mode, checkpoint, adopt }: StartPreparedOptions,
): Promise<Checkpoint | null> {
  if (mode === "fork") {
    if (checkpoint === null) throw new ServiceError("config_invalid", "Cannot fork: no checkpoint is named");
    const parent = await loadCheckpoint(checkpoint);
    const rescaled = checkFork(parent.record.config, prepared.identity);
    for (const warning of rescaledWarnings(rescaled)) run.warn(warning);
    await run.directory.update({ parent: { run: parent.record.run, checkpoint: parent.name } });
    const from = forkedCheckpoint(parent, prepared.identity);
    const message = keptRate(from);
    if (message !== null) run.emit({ kind: "log", level: "info", message });
    return from;
  }
  await repairCheckpoints(run.checkpointRoot);
  if (mode === "new" || (run.runState === "starting" && adopt === undefined)) return null;
  const newest = await newestCheckpoint(
    run.checkpointRoot,
    (message) => run.warn({ code: "checkpoint_damaged", message }),
  );
  if (!newest) await refuseDamaged(run);
  const facts = { ...run.facts(), has_checkpoint: newest !== null };
  // A server has decided already whether its run may be resumed.
  const reason = adopt === undefined ? commandRefusal("resume", run.runState, facts) : null;
  if (reason !== null) {
    const text = run.runState === "failed"
      ? "it failed before its first checkpoint; start anew with --force"
      : reason;
    throw new ServiceError("conflict", `Cannot resume the run in ${run.directory.path}: ${text}`);
  }
  if (newest) refuseChanges(newest.record.config, prepared.identity, run.directory.path);
  else refuseLostParent(run.directory);
  return newest;
}

/** Refuses to restart a run silently when all its checkpoints are damaged. @throws {ServiceError} `conflict`. */
async function refuseDamaged({ checkpointRoot, directory: { path } }: LiveRun): Promise<void> {
  const damaged = await listCheckpoints(checkpointRoot);
  if (damaged.length === 0) return;
  throw new ServiceError(
    "conflict",
    `Cannot resume the run in ${path}: all of its checkpoints are damaged (${
      damaged.join(", ")
    }); start anew with ` +
      "--force, or remove them to start from the beginning",
  );
}

/** Refuses to resume a completed run with a choice of its adapter that would do nothing. */
function refuseOtherAdapter({ other_adapter }: EndEvent, chosen: "best" | "last"): void {
  if (other_adapter?.which !== chosen) return;
  throw new ServiceError(
    "conflict",
    `Cannot choose the ${chosen} adapter of a completed run by output.adapter: it is in ${other_adapter.path}`,
    { path: other_adapter.path },
  );
}
