/** A folder that a model's paths cannot leave: every link is followed and checked. */

import { dirname, join } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { type WorkspaceFiles, WorkspaceRefusal } from "../tools/workspace_files.ts";

/** The most bytes of a file that a tool reads, and of a listing; more is `tool_failed`. */
export const MAX_RESULT_BYTES = 1 << 20;

/** The most links in one path; more count as leaving the folder. */
export const MAX_LINKS = 40;

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
   * @throws {WorkspaceRefusal} `outside`.
   */
  async resolve(path: string): Promise<string> {
    if (path.includes("\0")) throw new WorkspaceRefusal("outside");
    const start = this.#below(path);
    let at = start.startsWith("/") ? "/" : this.root, links = 0;
    const left = start.split("/").reverse();
    while (left.length > 0) {
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
      const target = await Deno.readLink(next), inside = this.#below(target);
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
    if (info.size > MAX_RESULT_BYTES) throw tooLarge(`read ${path}`, `${info.size} bytes`);
    return await Deno.readTextFile(full);
  }

  async write(path: string, content: string): Promise<void> {
    const full = await this.resolve(path);
    const info = await Deno.stat(full).catch(() => null);
    if ((info && !info.isFile) || !content.isWellFormed()) throw new WorkspaceRefusal("unusable");
    try {
      await Deno.mkdir(dirname(full), { recursive: true });
      await Deno.writeTextFile(full, content);
    } catch (cause) {
      // The model cannot fix a workspace that this process may not write to.
      if (cause instanceof Deno.errors.NotCapable) {
        const message = `Cannot write to the workspace ${this.root}: ${cause.message}`;
        throw new ServiceError("environment_failed", message, { path: this.root }, { cause });
      }
      throw new WorkspaceRefusal("unusable");
    }
  }

  async list(path: string): Promise<{ name: string; directory: boolean }[]> {
    const full = await this.resolve(path);
    const info = await Deno.stat(full).catch(() => null);
    if (!info?.isDirectory) throw new WorkspaceRefusal("absent");
    const entries: { name: string; directory: boolean }[] = [];
    let bytes = 0;
    for await (const { name, isDirectory, isSymlink } of Deno.readDir(full)) {
      bytes += name.length + 2;
      if (bytes > MAX_RESULT_BYTES) throw tooLarge(`list ${path}`, `more than ${MAX_RESULT_BYTES} bytes`);
      const target = isSymlink ? await Deno.stat(join(full, name)).catch(() => null) : null;
      entries.push({ name, directory: isDirectory || (target?.isDirectory ?? false) });
    }
    return entries;
  }
}

function tooLarge(what: string, size: string): ServiceError {
  return new ServiceError(
    "tool_failed",
    `Cannot ${what}: ${size}, above the limit of ${MAX_RESULT_BYTES} (MAX_RESULT_BYTES)`,
  );
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
