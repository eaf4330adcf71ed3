/**
 * `svc probe`: answers requests about a run that has no process, over the control pipe, until the pipe ends. The server
 * starts it for a run that is paused or completed. It changes nothing of the run.
 */

import { killLeftovers } from "../../agent/environment/leftovers.ts";
import { removeWorkspaces } from "../../agent/environment/workspace.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { LoadedConfig } from "../../config/check/load.ts";
import { systemClock } from "../../core/clock.ts";
import { deviceClaim } from "../../core/device_lock.ts";
import { assert, doing } from "../../core/errors.ts";
import { makeFolder } from "../../core/files.ts";
import { checkAdapter } from "../directory/checked_adapter.ts";
import { listCheckpoints, loadCheckpoint } from "../directory/checkpoint.ts";
import type { Identity } from "../directory/config_identity.ts";
import { refuseOtherInputs } from "../directory/same_inputs.ts";
import { type PreparedRun, prepareModel, prepareRun } from "../plan/prepare.ts";
import { loadRequest, openWorkerSession, type Session } from "../session/session.ts";
import { Controller, type ControlPort, type LiveRequest } from "./control.ts";
import { answerRequest } from "./requests.ts";

/** A run without a process, as far as a request needs it. */
export interface IdleModel extends Pick<PreparedRun, "config" | "definition" | "identity" | "files"> {
  /** Its evaluations; null for a request that needs none. */
  createAlgorithm: PreparedRun["createAlgorithm"] | null;
}

export interface ProbeOptions {
  control: ControlPort;
  /** Reads what a request needs. */
  read: (live_request: LiveRequest) => Promise<IdleModel>;
  openSession: (model: Pick<IdleModel, "config" | "files">) => Promise<Session>;
}

/** Answers requests until the pipe ends; no session is open then. */
export async function serveProbe(options: ProbeOptions): Promise<void> {
  const controller = new Controller({
    port: options.control,
    // The server has checked the state; a probe takes no other commands.
    state: () => "completed",
    facts: () => ({ has_checkpoint: true, checkpoint_configured: true, has_heldout: true }),
    record: () => Promise.resolve(),
    ask: (live_request, signal) => answer(live_request, options, signal),
    cancelNow: () => {},
  });
  await controller.listen();
  await controller.close();
}

/** {@link serveProbe} for a run's configuration, with real workers. */
export async function startProbe(
  loaded: LoadedConfig,
  { control, entry_url }: { control: ControlPort; entry_url: string },
): Promise<void> {
  let workspaces: string | null = null;
  try {
    await serveProbe({
      control,
      read: ({ command }) =>
        (command === "evaluate" ? prepareRun : prepareModel)(loaded, { by_client: true }),
      async openSession({ config, files }) {
        const folder = `${config.run.directory}/workspaces`;
        await killLeftovers(folder);
        await removeWorkspaces(folder);
        await makeFolder(folder);
        workspaces = await Deno.realPath(folder);
        const readable = [checkpointsOf(config)];
        return openWorkerSession({ config, files, entry_url, workspaces, readable });
      },
    });
  } finally {
    if (workspaces !== null) await removeWorkspaces(workspaces);
  }
}

const checkpointsOf = ({ checkpoint, run }: ResolvedConfig) =>
  checkpoint?.directory ?? `${run.directory}/checkpoints`;

/** Answers a request with the checkpoint that it names, else with the run's result. */
async function answer(
  live_request: LiveRequest,
  { read, openSession }: ProbeOptions,
  signal: AbortSignal,
): Promise<unknown> {
  const { config, definition, identity, files, createAlgorithm } = await read(live_request);
  const checkpoints = checkpointsOf(config), result = config.output.path;
  await checkRun(live_request, { checkpoints, result, identity });
  signal.throwIfAborted();
  const is_evaluation = live_request.command === "evaluate";
  const sequences = is_evaluation ? definition.sequences(config) : null;
  const session = await openSession({ config, files });
  try {
    const { engine } = session;
    const claim = deviceClaim("probe", null);
    await engine.call("load", { ...loadRequest(config, sequences), files, claim });
    for (const other of is_evaluation ? definition.adapters(config, "evaluations") : []) {
      await engine.call("adapter_open", other);
    }
    const algorithm = createAlgorithm?.(session, systemClock) ?? null;
    return await answerRequest(live_request, {
      session,
      checkpoints,
      evaluate: (request) => {
        assert(algorithm, "an evaluation has the run's data");
        return algorithm.evaluate(request);
      },
      policy: { type: "file", path: result },
      number: 1,
      concurrent_rollouts: sequences?.count ?? 1,
    }, signal);
  } finally {
    await session.close();
  }
}

/**
 * Refuses to answer with a model or data that have changed since the run trained, or with a damaged checkpoint.
 *
 * @throws {ServiceError} `conflict` naming the keys, `format_invalid` or `path_not_found`.
 */
async function checkRun(
  { command, checkpoint }: LiveRequest,
  { checkpoints, result, identity }: { checkpoints: string; result: string; identity: Identity },
): Promise<void> {
  // A checkpoint that does not exist is refused when the request is answered.
  if (checkpoint === undefined) {
    await doing(`read ${result}`, () => Deno.stat(result));
    await checkAdapter(result);
  } else if ((await listCheckpoints(checkpoints)).includes(checkpoint)) {
    await loadCheckpoint(`${checkpoints}/${checkpoint}`);
  }
  await refuseOtherInputs(command, { checkpoints, identity });
}
