/** Keeps the files that a verification relies on, and restores them before it runs. */

import { join } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import { isAdded, isCache, isKept, type Protection } from "./protect_globs.ts";

/** The most bytes of all protected files of a workspace. */
export const MAX_PROTECTED_BYTES = 64 << 20;

/** A file, or a link with what it refers to. */
type Kept = { path: string } & ({ bytes: Uint8Array<ArrayBuffer>; mode: number | null } | { target: string });

/** The protected files and links of one workspace. */
export class ProtectedFiles {
  private constructor(
    readonly root: string,
    readonly protection: Protection,
    readonly files: readonly Kept[],
  ) {}

  /**
   * Reads all protected files and links under `root`, and the files of the workspace to which these links lead.
   *
   * @throws {ServiceError} `environment_failed`.
   */
  static async keep(root: string, protection: Protection): Promise<ProtectedFiles> {
    const links: Kept[] = [], paths = new Set<string>();
    for await (const { path, isFile, isSymlink } of filesUnder(root)) {
      if (!isKept(protection, path)) continue;
      if (isFile) paths.add(path);
      if (!isSymlink) continue;
      links.push({ path, target: await Deno.readLink(join(root, path)) });
      const place = await Deno.realPath(join(root, path)).catch(() => "");
      if (place.startsWith(`${root}/`) && (await Deno.lstat(place)).isFile) {
        paths.add(place.slice(root.length + 1));
      }
    }
    const files: Kept[] = [];
    let left = MAX_PROTECTED_BYTES;
    for (const path of paths) {
      const { size, mode } = await Deno.lstat(join(root, path));
      if ((left -= size) < 0) {
        throw new ServiceError(
          "environment_failed",
          `Cannot protect ${path}: the protected files exceed ${MAX_PROTECTED_BYTES} bytes (MAX_PROTECTED_BYTES)`,
        );
      }
      files.push({ path, bytes: await Deno.readFile(join(root, path)), mode });
    }
    return new ProtectedFiles(root, protection, [...files, ...links]);
  }

  /**
   * Restores all files and links, and replaces whatever is in their or their folders' places. Removes protected ones that
   * were not there, and Python's caches. Folders without permissions are no obstacle; only those of kept files get them.
   *
   * @returns Whether one had been changed, removed or added; caches do not count.
   */
  async restore(): Promise<boolean> {
    if (this.protection.globs.length === 0) return false;
    const closed: { path: string; mode: number }[] = [];
    await openFolders(this.root, "", closed);
    let tampered = false;
    for (const kept of this.files) {
      await this.#restoreFolders(kept.path);
      if (await this.#isAsKept(kept)) continue;
      tampered = true;
      await this.#write(kept);
    }
    const added = await this.#removeAdded();
    // From within, because a closed folder hides those in it.
    for (const { path, mode } of closed.reverse()) {
      if (this.files.some((kept) => kept.path.startsWith(path))) continue;
      const full = join(this.root, path), info = await Deno.lstat(full).catch(() => null);
      if (info?.isDirectory) await Deno.chmod(full, mode);
    }
    return tampered || added.some((path) => !isCache(path));
  }

  async #restoreFolders(path: string): Promise<void> {
    let at = this.root;
    for (const part of path.split("/").slice(0, -1)) {
      at = join(at, part);
      const info = await Deno.lstat(at).catch(() => null);
      if (info?.isDirectory) continue;
      if (info) await Deno.remove(at);
      await Deno.mkdir(at);
    }
  }

  async #isAsKept(kept: Kept): Promise<boolean> {
    const full = join(this.root, kept.path), info = await Deno.lstat(full).catch(() => null);
    if ("target" in kept) return info?.isSymlink === true && await Deno.readLink(full) === kept.target;
    const { bytes, mode } = kept;
    if (!info?.isFile || info.mode !== mode || info.size !== bytes.length) return false;
    const now = await Deno.readFile(full).catch(() => null);
    return now !== null && now.every((byte, i) => byte === bytes[i]);
  }

  async #write(kept: Kept): Promise<void> {
    const full = join(this.root, kept.path);
    if (await Deno.lstat(full).catch(() => null)) await Deno.remove(full, { recursive: true });
    if ("target" in kept) return await Deno.symlink(kept.target, full);
    await Deno.writeFile(full, kept.bytes);
    if (kept.mode !== null) await Deno.chmod(full, kept.mode & 0o7777);
  }

  async #removeAdded(): Promise<string[]> {
    const kept = new Set(this.files.map(({ path }) => path)), added: string[] = [];
    for await (const { path } of filesUnder(this.root)) {
      if (!kept.has(path) && (isCache(path) || isAdded(this.protection, path))) added.push(path);
    }
    for (const path of added) await Deno.remove(join(this.root, path));
    return added;
  }
}

/** Lets the owner use all folders. @param closed Gets those that changed: paths that end in `/`, "" for the root. */
async function openFolders(
  root: string,
  path: string,
  closed: { path: string; mode: number }[],
): Promise<void> {
  const folder = join(root, path), { mode } = await Deno.lstat(folder);
  if (mode !== null && (mode & 0o700) !== 0o700) {
    closed.push({ path, mode: mode & 0o7777 });
    await Deno.chmod(folder, mode & 0o7777 | 0o700);
  }
  for (const { name, isDirectory } of await Array.fromAsync(Deno.readDir(folder))) {
    if (isDirectory) await openFolders(root, `${path}${name}/`, closed);
  }
}

/** All that is no folder. */
async function* filesUnder(root: string, folder = ""): AsyncGenerator<Deno.DirEntry & { path: string }> {
  for (const entry of await Array.fromAsync(Deno.readDir(join(root, folder)))) {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (entry.isDirectory) yield* filesUnder(root, path);
    else yield { ...entry, path };
  }
}
