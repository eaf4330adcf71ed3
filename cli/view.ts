/** `svc-server view`: shows the trajectories of a command-line run. */

import { join } from "node:path";
import { parseArgs } from "node:util";
import { parseServerConfig } from "../config/server/load.ts";
import { doing, ServiceError } from "../core/errors.ts";
import { isPresent } from "../core/files.ts";
import { reasonOf } from "../core/system_errors.ts";
import { jsonText } from "../core/text.ts";
import { listen } from "../server/listen/listen.ts";
import { viewRoutes } from "../server/view_routes.ts";
import { type ViewedDirectory, ViewSource } from "../server/resources/view_run.ts";
import { loadInterface } from "./interface.ts";
import { stopSignals } from "./signals.ts";
import type { Terminal } from "./terminal.ts";

export interface ViewArguments {
  observe_dir: string;
  open: boolean;
  /** 0: a free one. */
  port: number;
}

/** Reads the arguments after `view`; null when they are wrong. */
export function readViewArguments(args: readonly string[]): ViewArguments | null {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { open: { type: "boolean" }, port: { type: "string" } },
      allowPositionals: true,
    });
    const port = values.port ?? "0";
    if (positionals.length !== 1 || !/^\d{1,5}$/.test(port) || Number(port) > 65_535) return null;
    return { observe_dir: positionals[0]!, open: values.open ?? false, port: Number(port) };
  } catch {
    return null;
  }
}

/** Checks that an observe directory is there; it may still be empty. @throws {ServiceError} `path_not_found`. */
async function viewedDirectory(given: string): Promise<ViewedDirectory> {
  const path = await doing(`view ${given}`, () => Deno.realPath(given), "path_not_found");
  const info = await Deno.stat(path);
  const refuse = (reason: string) => new ServiceError("path_not_found", `Cannot view ${given}: ${reason}`);
  if (!info.isDirectory) throw refuse("it is no folder");
  if (await isPresent(join(path, "run.json"))) {
    throw refuse(`it is the directory of a run; its trajectories are in ${join(given, "trajectories")}`);
  }
  return { path, time: (info.birthtime ?? info.mtime ?? new Date(0)).toISOString() };
}

/** The program that opens a URL in the browser. */
export function openCommand(url: string, os: typeof Deno.build.os): [program: string, ...args: string[]] {
  if (os === "darwin") return ["open", url];
  // `start` is a part of the shell, and takes a first argument in quotes for a title.
  return os === "windows" ? ["cmd", "/c", "start", "", url] : ["xdg-open", url];
}

/** Opens a URL in the browser, or says why it cannot. */
function openBrowser(url: string, { error }: Pick<Terminal, "error">): void {
  const [program, ...args] = openCommand(url, Deno.build.os);
  try {
    const silent = { stdin: "null", stdout: "null", stderr: "null" } as const;
    new Deno.Command(program, { args, ...silent }).spawn().unref();
  } catch (cause) {
    error(`svc-server: Cannot open a browser with ${program}: ${reasonOf(cause)}; open ${url} yourself`);
  }
}

/**
 * Serves the trajectories of a directory on loopback until a signal to stop.
 *
 * @throws {ServiceError} Problems of the directory or the port.
 */
export async function view(
  { observe_dir, open, port }: ViewArguments,
  { terminal }: { terminal: Pick<Terminal, "error"> },
): Promise<void> {
  const source = new ViewSource(await viewedDirectory(observe_dir));
  // Only the address matters: view mode has no token, no data of its own and no device.
  const config = parseServerConfig(`bind = "127.0.0.1:${port}"`, { path: join(Deno.cwd(), "view.toml") });
  const interface_files = await loadInterface();
  const server = await listen(config, {
    interface_files,
    probeDevices: () => Promise.resolve([]),
    log: (line) => terminal.error(jsonText({ time: new Date().toISOString(), ...line })),
    routes: viewRoutes(source),
    runs: source,
    trajectories: source.trajectories,
  });
  const url = `http://${server.address}${interface_files ? "/" : "/v1/runs"}`;
  terminal.error(`svc-server shows ${observe_dir} at ${url} (Ctrl-C stops it)`);
  if (open) openBrowser(url, terminal);
  const { first, release } = stopSignals();
  await first;
  // A second signal ends the process as usual.
  release();
  await server.close();
}
