/**
 * Existing files in a run's output paths: which of them refuse the run, which `--force` moves aside, and which are
 * removed when the run has started.
 */

import { relative, resolve, sep } from "node:path";
import { RECORDING_NAMES, RECORDINGS } from "../../agent/recording/recording_file.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { ServiceError } from "../../core/errors.ts";
import { ignoreMissing, isPresent } from "../../core/files.ts";
import { LOCK_NAME } from "./directory_lock.ts";
import { siblingAdapter } from "./kept_adapters.ts";

/** Whether a text is `run.json`, intact or damaged. */
export function isRunRecord(text: string): boolean {
  try {
    return typeof JSON.parse(text)?.format_version === "number";
  } catch {
    return true;
  }
}

/** The run's own entries in its directory: `--force` removes these and nothing else. */
export const OWN_ENTRIES = [
  "run.json",
  "config.toml",
  "events.jsonl",
  "log.txt",
  "checkpoints",
  "trajectories",
  RECORDINGS,
];

/** Other entries while a run is working. */
const WORKING_ENTRIES = [LOCK_NAME, "workspaces"];

/** The folder for them until the new run has started. */
export const REPLACED = ".svc-replaced";

/** The folder for them during their final removal. */
const REMOVED = ".svc-removed";

/** All names that a run uses in its directory. */
export const RUN_NAMES =
  /^((\.svc-partial-)?(run\.json|config\.toml)|events\.jsonl|log\.txt|checkpoints|trajectories|recordings|lock|workspaces|\.svc-(replaced|removed))$/;

/** All names of a run in the folder of its checkpoints; those without `svc-` are also incomplete or replaced ones. */
export const CHECKPOINT_NAMES =
  /^(update_\d{6,}|\.svc-(partial|replaced)-update_\d{6,}|\.update_\d{6,}\.(partial|replaced))$/;

/** All names that a run uses in the observe directory. */
export const OBSERVE_NAMES = /^((\.svc-partial-)?update_\d{6,}\.jsonl|index\.jsonl)$/;

/**
 * The adapter and the metrics may replace only regular files, and folders are needed for the rest.
 *
 * @throws {ServiceError} `config_invalid` naming the key.
 */
export async function checkPlaces({ output, checkpoint, observe, metrics }: ResolvedConfig): Promise<void> {
  const refuse = (key: string, path: string, reason: string) =>
    new ServiceError("config_invalid", `Cannot write to ${path}: ${reason}; name another path in ${key}`, {
      path,
    });
  const files = [
    ...adapterFiles({ output }).map((path) => ["[output].path", path] as const),
    ["[metrics].csv", metrics.csv] as const,
  ];
  for (const [key, path] of files) {
    const info = path === undefined ? null : await Deno.lstat(path).catch(() => null);
    if (info && !info.isFile) {
      throw refuse(key, path!, `it is ${info.isDirectory ? "a directory" : "no regular file"}`);
    }
  }
  const folders = [
    ["[output].peft_dir", output.peft_dir],
    ["[checkpoint].directory", checkpoint?.directory],
    ["[observe].directory", observe?.directory],
  ] as const;
  for (const [key, path] of folders) {
    const info = path === undefined ? null : await Deno.stat(path).catch(() => null);
    if (info && !info.isDirectory) throw refuse(key, path!, "it is no directory");
  }
}

/** @throws {ServiceError} `conflict` when the fork would replace the folder of its parent. */
export async function checkParent(
  checkpoint: string,
  { run, checkpoint: own }: ResolvedConfig,
): Promise<void> {
  const real = (path: string) => Deno.realPath(path).catch(() => resolve(path));
  const parent = await real(checkpoint);
  for (const directory of [run.directory, ...(own ? [own.directory] : [])]) {
    if (!parent.startsWith(await real(directory) + sep)) continue;
    throw new ServiceError(
      "conflict",
      `Cannot fork ${checkpoint}: it lies in ${directory}, which --force would replace; name another ` +
        `[run].directory${directory === run.directory ? "" : " and [checkpoint].directory"}`,
    );
  }
}

/** Existing output in the way of a new run, and its key. */
export interface ExistingOutput {
  key: string;
  path: string;
}

/**
 * The first existing output that a new run would overwrite. A fork may replace the adapter and metrics of a run, but
 * not a run.
 */
export async function existingOutput(
  config: ResolvedConfig,
  mode: "new" | "resume" | "fork",
): Promise<ExistingOutput | null> {
  const { run: { directory }, checkpoint, observe, output, metrics } = config;
  const outputs = [
    ...OWN_ENTRIES.map((name) => ({ key: "run.directory", path: `${directory}/${name}` })),
    { key: "checkpoint.directory", path: checkpoint?.directory },
    { key: "observe.directory", path: observe?.directory },
    ...(mode !== "new" ? [] : [
      ...adapterFiles({ output }).map((path) => ({ key: "output.path", path })),
      { key: "output.peft_dir", path: output.peft_dir },
      { key: "metrics.csv", path: metrics.csv },
    ]),
  ];
  for (const { key, path } of outputs) {
    if (path !== undefined && await holdsSomething(path)) return { key, path };
  }
  return null;
}

/** The adapter, and the best and the last adapter beside it. */
export function adapterFiles({ output: { path } }: { output: { path: string } }): string[] {
  return [path, siblingAdapter(path, "best"), siblingAdapter(path, "last")];
}

async function holdsSomething(path: string): Promise<boolean> {
  const info = await Deno.stat(path).catch(() => null);
  if (!info?.isDirectory) return info !== null;
  for await (const { name } of Deno.readDir(path)) if (name !== LOCK_NAME) return true;
  return false;
}

/** @param has_run Whether the run directory contains a run that could be resumed. */
export function occupied({ key, path }: ExistingOutput, has_run: boolean): ServiceError {
  const go_on = has_run ? "go on with --resume, " : "";
  return new ServiceError(
    "already_exists",
    `Cannot start a run: ${path} exists; ${go_on}name another path in ${key}, or replace it with --force`,
    { path },
  );
}

async function removeIfPresent(path: string): Promise<void> {
  if (await isPresent(path)) await Deno.remove(path, { recursive: true });
}

/** A link in a run directory stays; runs' files in its target are removed. */
export async function isLink(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(({ isSymlink }) => isSymlink, () => false);
}

/** Moves the existing run aside until the new one has started. */
export async function moveAside(directory: string): Promise<void> {
  await Deno.mkdir(`${directory}/${REPLACED}`);
  for (const name of OWN_ENTRIES) {
    if (await isPresent(`${directory}/${name}`) && !await isLink(`${directory}/${name}`)) {
      await Deno.rename(`${directory}/${name}`, `${directory}/${REPLACED}/${name}`);
    }
  }
}

/** Restores a run that was moved aside for one that never started. */
export async function restoreReplaced(directory: string): Promise<void> {
  const aside = `${directory}/${REPLACED}`;
  await removeIfPresent(`${directory}/${REMOVED}`);
  if (!await isPresent(aside)) return;
  for await (const { name } of Deno.readDir(aside)) {
    await removeIfPresent(`${directory}/${name}`);
    await Deno.rename(`${aside}/${name}`, `${directory}/${name}`);
  }
  await Deno.remove(aside);
}

/** Removes the entries of a run that never started. The record goes last, so that leftovers can be recognised. */
export async function removeOwnEntries(directory: string): Promise<void> {
  for (const name of OWN_ENTRIES.toReversed()) {
    if (!await isLink(`${directory}/${name}`)) await removeIfPresent(`${directory}/${name}`);
  }
}

/**
 * The new run has started: removes the run that was moved aside, its adapter, and its files in folders of other keys.
 */
export async function removeReplaced({ run, output, checkpoint, observe }: ResolvedConfig): Promise<void> {
  const aside = `${run.directory}/${REPLACED}`;
  if (!await isPresent(aside)) return;
  // Not recursive: a folder that has taken the adapter's place since the check stays.
  for (const path of adapterFiles({ output })) {
    await Deno.remove(path).catch(ignoreMissing);
  }
  const folders = ["checkpoints", "trajectories", RECORDINGS].map((name) => `${run.directory}/${name}`);
  for (const place of [checkpoint?.directory, observe?.directory, ...folders]) {
    if (place !== undefined) await removeOwnFiles(place);
  }
  for await (const { name, isDirectory } of Deno.readDir(aside)) {
    if (isDirectory) await returnForeignFiles(`${aside}/${name}`, `${run.directory}/${name}`);
  }
  // Half of a removed run must not be restored.
  await Deno.rename(aside, `${run.directory}/${REMOVED}`);
  await Deno.remove(`${run.directory}/${REMOVED}`, { recursive: true });
}

/** Moves files that no run wrote back to their places. */
async function returnForeignFiles(from: string, to: string): Promise<void> {
  await removeOwnFiles(from);
  for (const { name } of await Array.fromAsync(Deno.readDir(from))) {
    await Deno.mkdir(to, { recursive: true });
    await Deno.rename(`${from}/${name}`, `${to}/${name}`);
  }
}

/** A folder of another key may hold other things: only files that runs write are removed. */
async function removeOwnFiles(directory: string): Promise<void> {
  const entries = await Array.fromAsync(Deno.readDir(directory)).catch(() => []);
  for (const { name } of entries) {
    if ([CHECKPOINT_NAMES, OBSERVE_NAMES, RECORDING_NAMES].some((names) => names.test(name))) {
      await Deno.remove(`${directory}/${name}`, { recursive: true });
    }
  }
}

/**
 * Makes git ignore a folder that contains only a run. A folder with other contents, such as the project, is left alone.
 */
export async function ignoreInGit({ run: { directory }, output }: ResolvedConfig): Promise<void> {
  const adapters = adapterFiles({ output }).map((path) => relative(directory, path).split(sep)[0]!);
  const own = new Set([...OWN_ENTRIES, ...WORKING_ENTRIES, ...adapters]);
  for await (const { name } of Deno.readDir(directory)) if (!own.has(name)) return;
  await Deno.writeTextFile(`${directory}/.gitignore`, "*\n", { createNew: true });
}
