/** Checks the files that a collection writes before its first attempt. */

import { resolve } from "node:path";
import type { LoadedConfig } from "../config/check/load.ts";
import { ServiceError } from "../core/errors.ts";
import { whyNotWritable } from "../core/files.ts";
import { beginsWith } from "../runs/directory/foreign_files.ts";
import { type Place, refuseOutput } from "../runs/directory/places.ts";
import { growingPath } from "./growing_file.ts";

/** The beginnings of files that earlier collections wrote. */
const ROWS = ['{"messages":', '{"prompt":'], REPORT = ["{"];

/** The options that name files, and `--force`. */
interface OutputOptions {
  out: string;
  report?: string;
  force?: true;
}

/**
 * Refuses outputs that cannot be written, that are inputs or outputs of the configuration, or that exist: without
 * `--force` every one, with it those that no collection wrote.
 *
 * @throws {ServiceError} `config_invalid`, `already_exists`.
 */
export async function checkCollectionOutputs(
  { out, report, force = undefined }: OutputOptions,
  loaded: LoadedConfig,
): Promise<void> {
  const outputs = [
    { key: "--out", path: out, beginnings: ROWS },
    { key: "--out", path: growingPath(out), beginnings: ROWS },
    ...(report === undefined ? [] : [{ key: "--report", path: report, beginnings: REPORT }]),
  ];
  const checked: Place[] = [];
  for (const { key, path, beginnings } of outputs) {
    const place: Place = { key, path: resolve(path), kind: "file" };
    await refuseOutput(place, loaded, checked.filter((other) => other.key !== key));
    checked.push(place);
    const reason = await whyNotWritable(path, "file");
    if (reason !== null) {
      throw new ServiceError("config_invalid", `Cannot write ${key} ${path}: ${reason}`, { path });
    }
    await refuseExisting(path, { key, beginnings, force: force === true });
  }
}

async function refuseExisting(
  path: string,
  { key, beginnings, force }: { key: string; beginnings: readonly string[]; force: boolean },
): Promise<void> {
  const info = await Deno.lstat(path).catch(() => null);
  if (info === null) return;
  const refuse = (reason: string) => {
    throw new ServiceError("already_exists", `Cannot write ${key} ${path}: ${reason}`, { path });
  };
  if (info.isSymlink) refuse("it is a link; name a file");
  if (info.size === 0) return;
  if (!force) refuse("it exists; --force replaces it, or name another file");
  const known = await Promise.all(beginnings.map((beginning) => beginsWith(path, beginning)));
  if (!known.includes(true)) refuse("it exists and no collection wrote it; name another file");
}
