/** The parts of a configuration that determine an adapter's bytes, and those that a fork may change. */

import { createHash } from "node:crypto";
import { stringify } from "smol-toml";
import { isJsonObject } from "../../core/json.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { describeKeys } from "../../config/describe.ts";
import { checkRunConfig } from "../../config/check/load.ts";
import { effectOf } from "../../config/key_effects.ts";
import type { RunConfig } from "../../config/schema.ts";
import { ServiceError } from "../../core/errors.ts";
import { openRegularFile } from "../../core/regular_file.ts";
import type { Table } from "../../config/text/toml_tree.ts";

/** The run's own paths. Without them the configuration can be reused. */
const OWN_PATHS = describeKeys().filter(({ path }) => path === "output").map(({ key }) => key);

/** All leaves by dotted key, in key order; arrays and empty tables are leaves. */
export function flattenConfig(config: unknown, prefix = ""): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [key, value] of Object.entries(config as Table).sort(([a], [b]) => a < b ? -1 : 1)) {
    if (value === undefined) continue;
    const path = prefix === "" ? key : `${prefix}.${key}`;
    if (isJsonObject(value) && Object.keys(value).length > 0) {
      for (const [inner, leaf] of flattenConfig(value, path)) leaves.set(inner, leaf);
    } else leaves.set(path, value);
  }
  return leaves;
}

const isForkable = (key: string) => ["extends", "rescales"].includes(effectOf(key).changes);

/** Whether a fork may have another value of a key than its parent: one without effect, or one that only extends. */
export const isForkableKey = (key: string) => effectOf(key).changes !== "trains";

/** The keys that determine the result, by dotted name. A file counts by its contents, not by its path. */
export type Identity = Record<string, unknown>;

/** @param inputs {@link inputFingerprints} of the configuration. */
export function identityOf(config: ResolvedConfig, inputs: Record<string, string>): Identity {
  const leaves = [...flattenConfig(config)].filter(([key]) => effectOf(key).changes !== "never");
  return Object.fromEntries(leaves.map(([key, value]) => [key, inputs[key] ?? value]));
}

/** SHA-256 over an identity. */
export function identityHash(identity: Identity): string {
  return createHash("sha256").update(JSON.stringify(identity)).digest("hex");
}

/** The files that a configuration names. @param keys Absent: all that name files. */
export function inputFiles(config: RunConfig, keys?: readonly string[]): { key: string; path: string }[] {
  const leaves = flattenConfig(config);
  return describeKeys().flatMap(({ key, path: direction }) => {
    const path = leaves.get(key), is_wanted = keys?.includes(key) !== false;
    return direction === "input" && typeof path === "string" && is_wanted ? [{ key, path }] : [];
  });
}

/**
 * Fingerprints of the files that a configuration names, by key.
 *
 * @param keys Absent: all that name files.
 * @throws {ServiceError} `path_not_found`.
 */
export async function inputFingerprints(
  config: RunConfig,
  keys?: readonly string[],
): Promise<Record<string, string>> {
  const fingerprints: Record<string, string> = {};
  for (const { key, path } of inputFiles(config, keys)) fingerprints[key] = await fingerprint(path);
  return fingerprints;
}

/** This many bytes at both ends of a file are hashed. */
const HASHED_BYTES = 4 << 20;

/** Size, and SHA-256 of the first and last 4 MiB: for a model, its header and last tensors. */
async function fingerprint(path: string): Promise<string> {
  using file = await openRegularFile(path);
  const { size } = await file.stat();
  const hash = createHash("sha256");
  for (
    const [from, to] of [[0, HASHED_BYTES], [Math.max(HASHED_BYTES, size - HASHED_BYTES), size]] as const
  ) {
    file.seek(from);
    const piece = new Uint8Array(1 << 16);
    for (let left = Math.min(to, size) - from; left > 0;) {
      const n = await file.read(piece.subarray(0, Math.min(piece.length, left)));
      if (n === null) break;
      hash.update(piece.subarray(0, n));
      left -= n;
    }
  }
  return `${size}:${hash.digest("hex")}`;
}

/** The keys in which two identities differ, sorted. */
export function changedKeys(before: Identity, after: Identity): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key])).sort();
}

/**
 * Refuses to resume a run as a different training.
 *
 * @throws {ServiceError} `conflict`, naming the keys.
 */
export function refuseChanges(before: Identity, after: Identity, directory: string): void {
  const changed = changedKeys(before, after);
  if (changed.length === 0) return;
  const other = changed.every(isForkable)
    ? "start a fork of a checkpoint with --fork and another [run].directory"
    : "start a new run with another [run].directory";
  throw new ServiceError(
    "conflict",
    `Cannot resume the run in ${directory}: ${changed.join(", ")} changed, or what the file holds; ` +
      `change it back, or ${other}`,
    { changed },
  );
}

/** The keys in which a fork differs from its parent, sorted. */
export interface ForkChanges {
  /** Those that a fork may not change. */
  forbidden: string[];
  /** Those that rescale the gradient. */
  rescaled: string[];
}

/** In what a fork differs from the training of its parent's checkpoint. */
export function changesOfFork(before: Identity, after: Identity): ForkChanges {
  const changed = changedKeys(before, after);
  return {
    forbidden: changed.filter((key) => !isForkable(key)),
    rescaled: changed.filter((key) => effectOf(key).changes === "rescales"),
  };
}

/**
 * The changed keys of a fork that rescale the gradient.
 *
 * @throws {ServiceError} `conflict` for a key that a fork may not change.
 */
export function checkFork(before: Identity, after: Identity): string[] {
  const { forbidden, rescaled } = changesOfFork(before, after);
  if (forbidden.length === 0) return rescaled;
  throw new ServiceError(
    "conflict",
    `Cannot fork: ${forbidden.join(", ")} would change the training up to the checkpoint; start a new run`,
    { changed: forbidden },
  );
}

/**
 * The resolved configuration as TOML that can be reused: without the run's own paths, and without defaults of keys that
 * this algorithm or build refuses.
 */
export function configToml(config: ResolvedConfig): string {
  const table = withoutOwnPaths(config), path = `${config.run.directory}/config.toml`;
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const text = stringify(table) + "\n";
    const { problems } = checkRunConfig(text, { path });
    if (problems.length === 0) return text;
    for (const { key } of problems) removeKey(table, key.split("."));
  }
  throw new Error(`Assertion failed: the resolved configuration of ${path} does not load again`);
}

/** A copy of a configuration without the run's own paths, which can be reused for another run. */
export function withoutOwnPaths(config: ResolvedConfig): Record<string, unknown> {
  const copy = JSON.parse(JSON.stringify(config)) as Table;
  for (const key of OWN_PATHS) removeKey(copy, key.split("."));
  return copy;
}

/** Removing some keys can reveal others, so the removal runs up to this often. */
const MAX_ROUNDS = 4;

function removeKey(table: Table, [key, ...rest]: string[]): void {
  const value = table[key!];
  if (rest.length > 0 && typeof value === "object" && value !== null) return removeKey(value as Table, rest);
  delete table[key!];
}
