/** Which process a container belongs to: it locks a file as long as it lives, and its containers have the file's name. */

import { ServiceError } from "../../../core/errors.ts";
import {
  askEngine,
  type ContainerEngine,
  engineReason,
  type EngineWait,
  removal,
} from "../container_engine.ts";

/** The file that identifies the folder, and so this machine. */
const PLACE_FILE = "place";

/** The label with the folder's identity. Only containers with it can be judged by the files here. */
export const PLACE_LABEL = "svc.place";

/** The owner of the containers of a run. */
export interface Owner {
  /** The identity of the folder. */
  place: string;
  /** The start of the names of its containers. */
  prefix: string;
  /** A path for the profile of its containers, which goes with it. */
  profile_path: string;
  /** Unlocks and removes the file. */
  leave(): Promise<void>;
}

/** So many times containers are removed, until it works. */
const MAX_REMOVALS = 5;

const PREFIX = /^svc-([0-9a-f]{12})-/;

const OWNER_FILE = /^[0-9a-f]{12}$/;

/**
 * Makes and locks a file in the folder. The system releases the lock when the process ends.
 *
 * @throws {ServiceError} `infrastructure_failed` when others may change the folder.
 */
export async function becomeOwner(folder: string): Promise<Owner> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await refuseShared(folder);
  const place = await placeOf(folder);
  const id = crypto.randomUUID().replaceAll("-", "").slice(0, 12);
  const path = `${folder}/${id}`;
  // Locked before it has its name: who finds it unlocked removes it.
  const file = await Deno.open(`${path}-draft`, { createNew: true, write: true });
  await file.lock(true);
  await Deno.rename(`${path}-draft`, path);
  return {
    place,
    prefix: `svc-${id}-`,
    profile_path: profilePath(path),
    async leave() {
      await removeFiles(path);
      file.close();
    },
  };
}

/** Who may change the folder could have living containers removed, or let them make more system calls. */
async function refuseShared(folder: string): Promise<void> {
  if (Deno.build.os === "windows") return;
  const { isDirectory, uid, mode } = await Deno.lstat(folder);
  if (isDirectory && uid === Deno.uid() && (mode! & 0o022) === 0) return;
  throw new ServiceError(
    "infrastructure_failed",
    `Cannot start containers: ${folder} must be a folder that only this user may change; remove it`,
  );
}

const profilePath = (path: string) => `${path}.seccomp.json`;

async function removeFiles(path: string): Promise<void> {
  for (const file of [profilePath(path), path]) await Deno.remove(file).catch(() => {});
}

async function placeOf(folder: string): Promise<string> {
  const path = `${folder}/${PLACE_FILE}`;
  const made = crypto.randomUUID();
  // Complete under its name: whoever comes first decides.
  const draft = `${folder}/${made}`;
  await Deno.writeTextFile(draft, made, { createNew: true });
  await Deno.link(draft, path).catch(() => {});
  await Deno.remove(draft);
  return (await Deno.readTextFile(path)).trim();
}

/**
 * Removes the containers of this machine whose process has ended, and the files of such processes.
 *
 * @returns How many.
 * @throws {ServiceError} `infrastructure_failed` when the engine does not list or remove them.
 */
export async function removeOrphans(
  engine: ContainerEngine,
  { folder, place }: { folder: string; place: string },
  wait: EngineWait = {},
): Promise<number> {
  const lives = new Map<string, boolean>(), removed = new Set<string>();
  for (let i = 0;; i++) {
    const orphans: string[] = [];
    for (const { id, owner } of await listedOwners(engine, place, wait)) {
      if (!lives.has(owner)) lives.set(owner, await isLocked(`${folder}/${owner}`));
      if (!lives.get(owner)) orphans.push(id);
    }
    for (const id of orphans) removed.add(id);
    if (orphans.length === 0) break;
    const { code, stderr } = await askEngine(engine.program, removal(engine, orphans), wait);
    if (code === 0) break;
    // Some that end in this moment cannot be removed, or are gone.
    if (i + 1 === MAX_REMOVALS) throw sweepFailure(engine, "remove", stderr);
  }
  for await (const { name } of Deno.readDir(folder)) {
    if (OWNER_FILE.test(name)) await isLocked(`${folder}/${name}`);
  }
  return removed.size;
}

/** Containers with a label, and which process they belong to. */
async function listedOwners(
  engine: ContainerEngine,
  place: string,
  wait: EngineWait,
): Promise<{ id: string; owner: string }[]> {
  const filter = `label=${PLACE_LABEL}=${place}`;
  const list = ["ps", "-a", "--filter", filter, "--format", "{{.ID}} {{.Names}}"];
  const { code, stdout, stderr } = await askEngine(engine.program, list, wait);
  if (code !== 0) throw sweepFailure(engine, "list", stderr);
  return stdout.split("\n").flatMap((line) => {
    const [id, name = ""] = line.trim().split(/\s+/), owner = PREFIX.exec(name)?.[1];
    return id && owner !== undefined ? [{ id, owner }] : [];
  });
}

function sweepFailure({ program }: ContainerEngine, what: string, stderr: string): ServiceError {
  return new ServiceError(
    "infrastructure_failed",
    `Cannot ${what} the containers of runs that have ended: ${program} failed: ${engineReason({ stderr })}`,
  );
}

/** Whether a process has the file, which is removed otherwise. */
async function isLocked(path: string): Promise<boolean> {
  let file: Deno.FsFile;
  try {
    file = await Deno.open(path, { write: true });
  } catch (error) {
    return !(error instanceof Deno.errors.NotFound);
  }
  using _ = file;
  if (!await file.tryLock(true)) return true;
  await removeFiles(path);
  return false;
}
