/**
 * `svc calibrate`: measures what a configuration needs on the device, over the control pipe. The server starts it for
 * `/v1/plan?calibrate=true`. It trains nothing and writes nothing.
 */

import type { LoadedConfig } from "../../config/check/load.ts";
import { type Clock, systemClock } from "../../core/clock.ts";
import { deviceClaim } from "../../core/device_lock.ts";
import { errorRecord } from "../../core/errors.ts";
import { makeFolder } from "../../core/files.ts";
import { parseJson } from "../../core/json.ts";
import { POLICY } from "../algorithms/algorithm.ts";
import type { MeasuredUpdate } from "../algorithms/measured_update.ts";
import { type PreparedRun, prepareRun } from "../plan/prepare.ts";
import { loadRequest, openWorkerSession, policySource, type Session } from "../session/session.ts";
import type { ControlPort } from "./control.ts";

/** The measurements of an update, and its memory. */
export interface Calibration extends MeasuredUpdate {
  /** Bytes on the device by component. */
  bytes: Record<string, number>;
}

/** Answers the pipe's first line with a {@link Calibration}; ends when that is done or the pipe ends. */
export async function serveCalibration(
  { lines, send }: ControlPort,
  measure: (signal: AbortSignal) => Promise<Calibration>,
): Promise<void> {
  const left = new AbortController();
  let work: Promise<void> | null = null;
  for await (const line of lines) {
    // Any further line cancels the measurement.
    if (work) break;
    const { id } = parseJson(line) as { id: number };
    send({ id, accepted: true, takes_effect: "now" });
    work = measure(left.signal).then(
      (result) => send({ id, result }),
      (error) => send({ id, error: errorRecord(error) }),
    );
  }
  left.abort();
  await work;
}

/** {@link serveCalibration} with real workers. */
export async function startCalibration(
  loaded: LoadedConfig,
  { control, entry_url }: { control: ControlPort; entry_url: string },
): Promise<void> {
  await serveCalibration(control, async (signal) => {
    const prepared = await prepareRun(loaded, { by_client: true }), { config, files } = prepared;
    const folder = `${config.run.directory}/workspaces`;
    await makeFolder(folder);
    const workspaces = await Deno.realPath(folder);
    const session = openWorkerSession({ config, files, entry_url, workspaces, readable: [] });
    try {
      return await calibrate(prepared, { session, clock: systemClock, signal });
    } finally {
      await session.close();
    }
  });
}

/** Loads as a run does, measures an update, and counts the bytes on the device. */
export async function calibrate(
  { config, definition, files, createAlgorithm }: Pick<
    PreparedRun,
    "config" | "definition" | "files" | "createAlgorithm"
  >,
  { session, clock, signal }: { session: Session; clock: Clock; signal: AbortSignal },
): Promise<Calibration> {
  const { engine } = session;
  const request = loadRequest(config, definition.sequences(config), definition.training(config));
  const claim = deviceClaim("probe", null);
  const { vocabulary } = await engine.call("load", { ...request, files, claim });
  await engine.call("adapter_open", { adapter: POLICY, source: policySource(config) });
  for (const adapter of definition.adapters(config, "updates")) await engine.call("adapter_open", adapter);
  signal.throwIfAborted();
  const algorithm = createAlgorithm(session, clock);
  const measured = await definition.measureUpdate(config, { engine, algorithm, vocabulary, clock, signal });
  const { peak_bytes: bytes } = await engine.call("counters", null);
  return { ...measured, bytes };
}
