/** Runs the server until it is told to stop, for `svc-server` and `svc server`. */

import type { ServerConfig } from "../config/server.ts";
import { loadServerConfig, parseServerConfig } from "../config/server_load.ts";
import { systemClock } from "../core/clock.ts";
import { makeFolder } from "../core/files.ts";
import { jsonText } from "../core/text.ts";
import { listen } from "../server/listen.ts";
import { openDatabase } from "../server/store/database.ts";
import { probeDevices } from "./device_probe.ts";
import { onLeaveSignal } from "./signals.ts";
import type { Terminal } from "./terminal.ts";

export interface ServeOptions {
  /** The program's entry file, which probes devices as a worker. */
  entry_url: string;
  terminal: Pick<Terminal, "error">;
}

/** Loads a configuration file; without one, uses the defaults with paths in the current directory. */
async function configOf(path: string | null): Promise<ServerConfig> {
  return path === null
    ? parseServerConfig("", { path: `${Deno.cwd()}/server.toml` })
    : await loadServerConfig(path);
}

/** Resolves at the first signal to stop. */
function stopSignal(): Promise<void> {
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
  const database = openDatabase(`${config.data_dir}/index.sqlite`, { clock: systemClock, log });
  const server = await listen(config, { probeDevices: () => probeDevices(entry_url), log, database });
  terminal.error(`svc-server listens at http://${server.address} (Ctrl-C stops it)`);
  await stopSignal();
  await server.close();
  database.close();
}
