/** A folder that a model's paths cannot leave: every link is followed and checked. */

import { dirname, join } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { type RefusalReason, type WorkspaceFiles, WorkspaceRefusal } from "../tools/workspace_files.ts";

/** The most bytes of a file that a tool reads, and of a listing; more is refused as `too_large`. */
export const MAX_RESULT_BYTES = 1 << 20;

/** The most links of a listing, whose targets are looked at; more is refused as `too_large`. */
export const MAX_LISTED_LINKS = 10_000;

/** The most links in one path; more count as leaving the folder. */
export const MAX_LINKS = 40;

/** The most parts of a path with those of its links; more count as leaving the folder. */
export const MAX_PARTS = 10_000;

/** The prefix of workspace names. */
export const WORKSPACE_PREFIX = "svc-workspace-";

/** Removes the workspaces in a folder where possible, and the folder when it is empty. */
export async function removeWorkspaces(folder: string): Promise<void> {
  for (const { name } of await Array.fromAsync(Deno.readDir(folder)).catch(() => [])) {
    if (!name.startsWith(WORKSPACE_PREFIX)) continue;
    await Deno.remove(join(folder, name), { recursive: true }).catch(() => {});
  }
  const there = await Deno.lstat(folder).catch(() => null);
  // A link to a folder was made by a user and is not a leftover.
  if (there?.isDirectory) await Deno.remove(folder).catch(() => {});
}

export class Workspace implements WorkspaceFiles {
  /**
   * @param root Absolute, without links.
   * @param shown_as The path by which programs of the workspace know it; null: by `root`.
   */
  constructor(readonly root: string, readonly shown_as: string | null = null) {}

  /**
   * The target of a model's path after `..` and links are resolved; parts that do not exist are taken as written. A
   * process in the workspace could change a link between this check and the use of the path. Without a container, such
   * processes have the rights of the user that runs the service.
   *
   * @throws {WorkspaceRefusal} `outside`; `absent` for a link with a target that is no UTF-8.
   */
  async resolve(path: string): Promise<string> {
    if (path.includes("\0")) throw new WorkspaceRefusal("outside");
    const start = this.#below(path);
    let at = start.startsWith("/") ? "/" : this.root, links = 0, parts = 0;
    const left = start.split("/").reverse();
    while (left.length > 0) {
      if (++parts > MAX_PARTS) throw new WorkspaceRefusal("outside");
      const part = left.pop()!;
      if (part === "" || part === ".") continue;
      if (part === "..") {
        at = dirname(at);
        continue;
      }
      const next = join(at, part);
      const info = await Deno.lstat(next).catch(() => null);
      if (!info?.isSymlink) {
        at = next;
        continue;
      }
      if (++links > MAX_LINKS) throw new WorkspaceRefusal("outside");
      const target = await orRefused("absent", Deno.readLink(next)), inside = this.#below(target);
      if (target.startsWith("/")) at = inside.startsWith("/") ? "/" : this.root;
      left.push(...inside.split("/").reverse());
    }
    if (at !== this.root && !at.startsWith(`${this.root}/`)) throw new WorkspaceRefusal("outside");
    return at;
  }

  /** A path below the workspace as programs know it becomes relative to the root; others stay. */
  #below(path: string): string {
    if (this.shown_as === null) return path;
    if (path === this.shown_as) return ".";
    return path.startsWith(`${this.shown_as}/`) ? `./${path.slice(this.shown_as.length + 1)}` : path;
  }

  async read(path: string): Promise<string> {
    const full = await this.resolve(path);
    const info = await Deno.stat(full).catch(() => null);
    if (!info?.isFile) throw new WorkspaceRefusal("absent");
    if (info.size > MAX_RESULT_BYTES) throw new WorkspaceRefusal("too_large");
    return await orRefused("absent", Deno.readTextFile(full));
  }

  async write(path: string, content: string): Promise<void> {
    const full = await this.resolve(path);
    const info = await Deno.stat(full).catch(() => null);
    if ((info && !info.isFile) || !content.isWellFormed()) throw new WorkspaceRefusal("unusable");
    await orRefused("unusable", Deno.mkdir(dirname(full), { recursive: true }));
    await orRefused("unusable", Deno.writeTextFile(full, content));
  }

  async list(path: string): Promise<{ name: string; directory: boolean }[]> {
    const full = await this.resolve(path);
    const info = await Deno.stat(full).catch(() => null);
    if (!info?.isDirectory) throw new WorkspaceRefusal("absent");
    return await orRefused("absent", entriesOf(full));
  }
}

async function entriesOf(folder: string): Promise<{ name: string; directory: boolean }[]> {
  const entries: { name: string; directory: boolean }[] = [];
  let bytes = 0, links = 0;
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(folder)) {
    bytes += name.length + 2;
    if (isSymlink) links++;
    if (bytes > MAX_RESULT_BYTES || links > MAX_LISTED_LINKS) throw new WorkspaceRefusal("too_large");
    const target = isSymlink ? await Deno.stat(join(folder, name)).catch(() => null) : null;
    entries.push({ name, directory: isDirectory || (target?.isDirectory ?? false) });
  }
  return entries;
}

/**
 * What a use of the file system gives. An attempt can make it fail, as by taking permissions away: that is a refusal. The
 * model cannot fix a workspace that this process itself may not use.
 *
 * @throws {ServiceError} `environment_failed` for a permission that this process lacks.
 */
async function orRefused<T>(reason: RefusalReason, used: Promise<T>): Promise<T> {
  try {
    return await used;
  } catch (cause) {
    if (cause instanceof WorkspaceRefusal) throw cause;
    if (!(cause instanceof Deno.errors.NotCapable)) throw new WorkspaceRefusal(reason);
    throw new ServiceError("environment_failed", `Cannot use the workspace: ${cause.message}`, {}, { cause });
  }
}

/** Removes a folder with all its contents, also where a task removed permissions. */
export async function removeFolder(folder: string): Promise<void> {
  await Deno.remove(folder, { recursive: true }).catch(async () => {
    await makeRemovable(folder).catch(() => {});
    await Deno.remove(folder, { recursive: true });
  });
}

async function makeRemovable(folder: string): Promise<void> {
  await Deno.chmod(folder, 0o700);
  for await (const entry of Deno.readDir(folder)) {
    if (entry.isDirectory) await makeRemovable(join(folder, entry.name));
  }
}
