/** A model in workers without a run, for commands that only sample or score. */

import type { ResolvedConfig } from "../config/check/derive.ts";
import { deviceClaim } from "../core/device_lock.ts";
import type { PreparedRun } from "../runs/plan/prepare.ts";
import { loadRequest, type Session } from "../runs/session/session.ts";
import { passMessages } from "./interruptible.ts";
import { openScratchFolder } from "./scratch_folder.ts";

/** The engine's name of the adapter. */
const ADAPTER = "evaluated";

/** The configuration of the workers, and the files and folders that they may access. */
export interface ModelSession {
  config: ResolvedConfig;
  /** The folder for workspaces. */
  workspaces: string;
  /** Files that the engine reads besides those of the configuration. */
  readable: string[];
}

/** A session with its model; disposing of it removes the workspaces. */
export interface OpenModel extends AsyncDisposable {
  session: Session;
  /** The engine's name of the adapter; null: the base model. */
  adapter: string | null;
}

/**
 * Loads the model and its adapter, and makes a temporary folder for workspaces.
 *
 * @param path The adapter's real path; null: the base model.
 * @param tell Receives the session's messages.
 * @throws {ServiceError} Problems of the files or the machine.
 */
export async function openModel(
  { config, definition }: Pick<PreparedRun, "config" | "definition">,
  path: string | null,
  { openSession, tell }: { openSession: (session: ModelSession) => Session; tell(message: string): void },
): Promise<OpenModel> {
  await using opening = new AsyncDisposableStack();
  const scratch = await openScratchFolder();
  opening.defer(() => scratch.close());
  // The folder of temporary files can be a link, and the workers may write only to its target.
  const workspaces = await Deno.realPath(scratch.path);
  const session = openSession({ config, workspaces, readable: path === null ? [] : [path] });
  const told = passMessages(session.messages, tell);
  opening.defer(() => told);
  opening.defer(() => session.close());
  const { engine } = session, claim = deviceClaim("probe", null);
  await engine.call("load", { ...loadRequest(config, definition.sequences(config)), claim });
  if (path !== null) {
    await engine.call("adapter_open", { adapter: ADAPTER, source: { type: "file", path } });
  }
  const opened = opening.move();
  return {
    session,
    adapter: path === null ? null : ADAPTER,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}
