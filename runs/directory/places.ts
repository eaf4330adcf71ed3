/** All paths of a run: links are resolved before permissions are limited to them, and no two may collide. */

import { resolve } from "node:path";
import { type ResolvedConfig, resolvePaths } from "../../config/check/derive.ts";
import { describeKeys } from "../../config/describe.ts";
import { type LoadedConfig, placeFindings } from "../../config/check/load.ts";
import { configError } from "../../config/text/problems.ts";
import { valueAt } from "../../config/text/toml_tree.ts";
import { ServiceError } from "../../core/errors.ts";
import { partialPath } from "../../core/files.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import { fileIdentity, pathSteps, realPathOf, realPlaceOf } from "../../core/real_path.ts";
import { besidePeft } from "../../trainer/formats/peft.ts";
import { adapterFiles, CHECKPOINT_NAMES, OBSERVE_NAMES, RUN_NAMES } from "./replaced_output.ts";

/**
 * How a run uses a path. `file`, `folder`: written and replaced as one; `run`, `checkpoints`, `trajectories`:
 * folders in which the run writes its own names; `project`: like `run`, but the folder also contains the configuration,
 * so the run does not own it; the other kinds are read.
 */
type PlaceKind =
  | "input_file"
  | "input_folder"
  | "file"
  | "folder"
  | "run"
  | "project"
  | "checkpoints"
  | "trajectories";

/** A path that a run reads or writes. */
export interface Place {
  /** The dotted key, or the option, with this path. */
  key: string;
  path: string;
  kind: PlaceKind;
}

/** The kinds of output keys; any other one is a `folder`. */
const OUTPUT_KINDS: Readonly<Record<string, PlaceKind>> = {
  "run.directory": "run",
  "output.path": "file",
  "metrics.csv": "file",
  "agent.judge.cache_path": "file",
  "checkpoint.directory": "checkpoints",
  "observe.directory": "trajectories",
};

/** Keys for folders inside the run's folder, with the names that the run uses when they are unset. */
const OWN_FOLDERS: Readonly<Record<string, string>> = {
  "checkpoint.directory": "checkpoints",
  "observe.directory": "trajectories",
};

const isInput = ({ kind }: Place) => kind === "input_file" || kind === "input_folder";

/** All paths of a configuration, including derived ones. */
function placesOf(config: unknown): Place[] {
  return describeKeys().flatMap(({ key, path: direction }) => {
    const path = valueAt(config, key.split("."));
    if (!direction || typeof path !== "string") return [];
    return [{ key, path, kind: direction === "input" ? "input_file" : OUTPUT_KINDS[key] ?? "folder" }];
  });
}

/**
 * The configuration with all links in its paths resolved. Its inputs, and so its identity, stay the same.
 *
 * @param checked Files whose paths are real ones: a link in place of one is not followed.
 */
export async function withRealPaths(
  config: ResolvedConfig,
  checked: readonly CheckedFile[] = [],
): Promise<ResolvedConfig> {
  const copy = structuredClone(config), real = new Set(checked.map(({ path }) => path));
  for (const { key, path, kind } of placesOf(config)) {
    if (kind === "input_file" && real.has(path)) continue;
    const parts = key.split(".");
    const table = valueAt(copy, parts.slice(0, -1)) as Record<string, unknown>;
    table[parts.at(-1)!] = await (kind === "file" ? realPlaceOf(path) : realPathOf(path));
  }
  return copy;
}

/** Two places of which one would overwrite the other. */
export interface Collision {
  /** The place that is written first; if one contains the other, the inner one first. */
  keys: [string, string];
  message: string;
}

/** All pairs of places in which a run would overwrite an input or another output. */
export async function findCollisions(places: readonly Place[]): Promise<Collision[]> {
  const found = await Promise.all(places.map(async (place) => ({
    ...place,
    claims: await claimsOf(place),
    // Removing a folder removes a link in it, and also removes a link's target in it.
    ways: [await pathSteps(await realPlaceOf(place.path)), await pathSteps(await realPathOf(place.path))],
  })));
  return found.flatMap((a, i) =>
    found.slice(i + 1).flatMap((b) => isInput(a) && isInput(b) ? [] : collisionOf(a, b) ?? [])
  );
}

/** A path that a place occupies. */
interface Claim {
  identity: string;
  /** Whether the path at these names below it is occupied. */
  takes: (below: string[], other: Place) => boolean;
}

type LocatedPlace = Place & { claims: Claim[]; ways: Awaited<ReturnType<typeof pathSteps>>[] };

/** Other names that a file occupies: its partial file, and the adapter that `output.adapter` did not choose. */
function besideFile(key: string, path: string): string[] {
  const files = key === "output.path" ? adapterFiles({ output: { path } }) : [path];
  return [...files.slice(1), ...files.map(partialPath)];
}

async function claimsOf({ key, kind, path }: Place): Promise<Claim[]> {
  const itself = (below: string[]) => below.length === 0;
  const named = (pattern: RegExp) => (below: string[]) => itself(below) || pattern.test(below[0]!);
  const claim = async (path: string, takes: Claim["takes"]) => ({
    identity: await fileIdentity(path),
    takes,
  });
  const each = (paths: string[], takes: Claim["takes"]) =>
    Promise.all(paths.map((path) => claim(path, takes)));
  switch (kind) {
    case "input_file":
      return [await claim(path, itself)];
    case "input_folder":
      return [await claim(path, () => true)];
    case "file":
      return await each([path, ...besideFile(key, path)], itself);
    case "folder":
      return await each([path, ...besidePeft(path)], () => true);
    case "run":
    case "project":
      return [
        await claim(path, (below, other) => {
          if (below.length === 1 && below[0] === OWN_FOLDERS[other.key]) return false;
          return kind === "run" && other.key === "lora.init_adapter" || named(RUN_NAMES)(below);
        }),
      ];
    case "checkpoints":
      return [await claim(path, named(CHECKPOINT_NAMES))];
    case "trajectories":
      return [await claim(path, named(OBSERVE_NAMES))];
  }
}

/** The names from a claim to a place that it occupies; null when it does not. */
function namesTaken(claim: Claim, other: LocatedPlace): string[] | null {
  for (const way of other.ways) {
    const step = way.find(({ identity }) => identity === claim.identity);
    if (step && claim.takes(step.below, other)) return step.below;
  }
  return null;
}

function collisionOf(a: LocatedPlace, b: LocatedPlace): Collision | null {
  for (const [outer, inner] of [[a, b], [b, a]] as const) {
    for (const claim of outer.claims) {
      const names = namesTaken(claim, inner);
      if (names) return describeCollision(outer, inner, names.length === 0 && claim === outer.claims[0]);
    }
  }
  return null;
}

function describeCollision(outer: Place, inner: Place, are_one: boolean): Collision {
  if (are_one) {
    const [first, second] = isInput(outer)
      ? [inner, outer]
      : isInput(inner)
      ? [outer, inner]
      : [inner, outer];
    const what = [first, second].some(({ kind }) => kind === "input_file" || kind === "file")
      ? "file"
      : "folder";
    const message = `Cannot use ${first.path}: ${first.key} and ${second.key} are the same ${what}`;
    return { keys: [first.key, second.key], message };
  }
  const is_read = isInput(outer);
  const where = outer.kind === "file"
    ? `has a name that the run takes with ${outer.key} (${outer.path})`
    : `lies in ${outer.key} (${outer.path}), where the run ${is_read ? "only reads" : "writes and removes"}`;
  return {
    keys: isInput(inner) ? [outer.key, inner.key] : [inner.key, outer.key],
    message: `Cannot use ${inner.path}: ${inner.key} ${where}`,
  };
}

/** The places of a configuration, including its own file. */
async function placesOfLoaded(loaded: LoadedConfig): Promise<Place[]> {
  const path = resolve(loaded.path), config = resolvePaths(loaded.config, path);
  const run = await fileIdentity(config.run.directory);
  const is_project = (await pathSteps(await realPathOf(path))).some(({ identity }) => identity === run);
  const places = placesOf(config).map((place) =>
    is_project && place.kind === "run" ? { ...place, kind: "project" as const } : place
  );
  return [...places, { key: "the configuration", path, kind: "input_file" }];
}

const RUN_DIRECTORY = "run.directory";

/** Without derived collisions: unset paths lie in the run's folder and move with it. */
function withoutConsequences(
  collisions: readonly Collision[],
  isSet: (key: string) => boolean,
): readonly Collision[] {
  const with_run = collisions.filter(({ keys }) => keys.includes(RUN_DIRECTORY)).flatMap(({ keys }) => keys);
  return collisions.filter(({ keys }) =>
    keys.includes(RUN_DIRECTORY) ||
    !keys.some((key, i) => !isSet(key) && with_run.includes(keys[1 - i]!))
  );
}

/**
 * Refuses a run that would overwrite an input, or write twice to one place.
 *
 * @param read Inputs besides those in the configuration.
 * @throws {ServiceError} `config_invalid`, naming both keys of every such pair.
 */
export async function refuseCollisions(loaded: LoadedConfig, read: readonly Place[] = []): Promise<void> {
  const collisions = await findCollisions([...await placesOfLoaded(loaded), ...read]);
  if (collisions.length === 0) return;
  const known = describeKeys().map(({ key }) => key);
  const isSet = (key: string) => !known.includes(key) || valueAt(loaded.config, key.split(".")) !== undefined;
  const findings = withoutConsequences(collisions, isSet).map(({ keys, message }) => {
    const key = keys.find((key) => known.includes(key))!;
    const from_name = key === RUN_DIRECTORY && !isSet(key) ? " or run.name" : "";
    return {
      path: key.split("."),
      code: "invalid_value" as const,
      names_key: true,
      message,
      hint: `name another ${key}${from_name}`,
    };
  });
  throw configError(loaded.path, placeFindings(findings, loaded));
}

/**
 * Refuses to write a file over an input, or over an output of the configuration's run.
 *
 * @throws {ServiceError} `config_invalid`, naming both.
 */
export async function refuseOutput(
  output: Place,
  loaded: LoadedConfig,
  read: readonly Place[],
): Promise<void> {
  const collisions = await findCollisions([...await placesOfLoaded(loaded), ...read, output]);
  const found = collisions.find(({ keys }) => keys.includes(output.key));
  if (found) throw new ServiceError("config_invalid", `${found.message}; name another path`);
}
