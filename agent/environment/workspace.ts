/** A folder that a model's paths cannot leave: every link on the way is followed and checked. */

import { dirname, join } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { type WorkspaceFiles, WorkspaceRefusal } from "../tools/builtin/files.ts";

/** Bytes of a file that a tool reads, and of a listing; more is `tool_failed`. */
export const MAX_RESULT_BYTES = 1 << 20;

/** Links on the way of one path; more count as a way out. */
export const MAX_LINKS = 40;

/** How the names of workspaces begin. */
export const WORKSPACE_PREFIX = "svc-workspace-";

/** Removes the workspaces in a folder, as far as that goes, and the folder when nothing else lies in it. */
export async function removeWorkspaces(folder: string): Promise<void> {
  for (const { name } of await Array.fromAsync(Deno.readDir(folder)).catch(() => [])) {
    if (!name.startsWith(WORKSPACE_PREFIX)) continue;
    await Deno.remove(join(folder, name), { recursive: true }).catch(() => {});
  }
  const there = await Deno.lstat(folder).catch(() => null);
  // A link to a folder is somebody's wish, not a leftover.
  if (there?.isDirectory) await Deno.remove(folder).catch(() => {});
}

export class Workspace implements WorkspaceFiles {
  /** @param root Absolute, without links. */
  constructor(readonly root: string) {}

  /**
   * Where a path of the model leads once `..` and every link are resolved; what does not exist yet counts as it is
   * written. A process of the workspace could move a link between this check and its use: who runs such processes
   * without a container trusts them as far as the user that runs the service.
   *
   * @throws {WorkspaceRefusal} `outside`.
   */
  async resolve(path: string): Promise<string> {
    if (path.includes("\0")) throw new WorkspaceRefusal("outside");
    let at = path.startsWith("/") ? "/" : this.root, links = 0;
    const left = path.split("/").reverse();
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
      const target = await Deno.readLink(next);
      if (target.startsWith("/")) at = "/";
      left.push(...target.split("/").reverse());
    }
    if (at !== this.root && !at.startsWith(`${this.root}/`)) throw new WorkspaceRefusal("outside");
    return at;
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
      // The model can do nothing about a workspace that this process may not write to.
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

/** Removes a folder with everything in it, also what a task took the rights from. */
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
