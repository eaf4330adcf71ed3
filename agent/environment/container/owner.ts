/** Which process a container belongs to: it locks a file as long as it lives, and its containers have the file's name. */

import { askEngine, type ContainerEngine, type EngineWait } from "../container_engine.ts";

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

const PREFIX = /^svc-([0-9a-f]{12})-/;

const OWNER_FILE = /^[0-9a-f]{12}$/;

/** Makes and locks a file in the folder, which all users share. The system releases the lock when the process ends. */
export async function becomeOwner(folder: string): Promise<Owner> {
  await Deno.mkdir(folder, { recursive: true });
  // Not by mkdir, which the process's mask restricts. A folder that belongs to another user has this mode.
  await Deno.chmod(folder, 0o1777).catch(() => {});
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
 * @throws {ServiceError} `environment_failed` when the engine does not answer.
 */
export async function removeOrphans(
  engine: ContainerEngine,
  { folder, place }: { folder: string; place: string },
  wait: EngineWait = {},
): Promise<number> {
  const { program } = engine;
  const filter = `label=${PLACE_LABEL}=${place}`;
  const list = ["ps", "-a", "--filter", filter, "--format", "{{.ID}} {{.Names}}"];
  const { stdout } = await askEngine(program, list, wait);
  const lives = new Map<string, boolean>();
  const orphans: string[] = [];
  for (const line of stdout.split("\n")) {
    const [container, name = ""] = line.trim().split(/\s+/), owner = PREFIX.exec(name)?.[1];
    if (!container || owner === undefined) continue;
    if (!lives.has(owner)) lives.set(owner, await isLocked(`${folder}/${owner}`));
    if (!lives.get(owner)) orphans.push(container);
  }
  if (orphans.length > 0) {
    await askEngine(program, ["rm", "-f", ...engine.name === "podman" ? ["-t", "0"] : [], ...orphans], wait);
  }
  for await (const { name } of Deno.readDir(folder)) {
    if (OWNER_FILE.test(name)) await isLocked(`${folder}/${name}`);
  }
  return orphans.length;
}

/** Whether a process has the file, which is removed otherwise. One that may not be opened belongs to another user's process. */
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
