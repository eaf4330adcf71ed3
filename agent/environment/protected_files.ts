/** Keeps the files that a verification relies on, and restores them before it runs. */

import { dirname, join } from "node:path";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";

/** The most bytes of all protected files of a workspace. */
export const MAX_PROTECTED_BYTES = 64 << 20;

/** The globs to protect unless a scenario or the environment sets others. */
export const DEFAULT_PROTECT = ["test_*", "*_test.*", "tests/**"] as const;

/**
 * A scenario's globs: its own, else the environment's, else every file of `files` that the verify command names (a path
 * from the workspace's root, with or without `./`) and {@link DEFAULT_PROTECT}.
 */
export function protectGlobs(scenario: Scenario, configured: readonly string[] | undefined): string[] {
  const verify = scenario.env?.verify;
  if (!verify) return [];
  if (verify.protect) return verify.protect;
  if (configured) return [...configured];
  const named = Object.keys(scenario.env!.files).filter((path) => names(verify.command, path));
  return [...named.map((path) => `/${escapeGlob(path)}`), ...DEFAULT_PROTECT];
}

const escapeGlob = (path: string) => path.replace(/[*?[\\]/g, "\\$&");

/** A character that can be next to a path in a command: anything that cannot be part of a path. */
const BESIDE_PATH = /[^\p{L}\p{N}_./~-]/u;

/** Spellings of the workspace's root at the start of a path; a command's HOME is the workspace. */
const FROM_ROOT = /(?<![\p{L}\p{N}_.\/~-])(?:~\/|\$\{?(?:PWD|HOME)\}?\/)?(?:\.\/+)*$/u;

/** Whether a command contains a path as a separate word: `data.txt` does not contain `a.txt`, nor does `x/a.txt`. */
function names(command: readonly string[], path: string): boolean {
  return command.some((argument) => {
    for (let at = argument.indexOf(path); at >= 0; at = argument.indexOf(path, at + 1)) {
      const before = argument.slice(0, at).replace(FROM_ROOT, "");
      const after = argument.slice(at + path.length).replace(/^\.(?=\s|$)/, "");
      const ends = (char: string | undefined) => char === undefined || BESIDE_PATH.test(char);
      if (ends([...before].at(-1)) && ends([...after][0])) return true;
    }
    return false;
  });
}

/**
 * Whether a path of the workspace matches a glob: `*` and `?` match within a part, `**` any number of parts, `[…]` a
 * class; `\` quotes the next character. A glob without `/` matches a name in any folder. A leading `/` is the
 * workspace's root.
 */
export function matchesGlob(glob: string, path: string): boolean {
  const pattern = globPattern(glob.replace(/^\//, ""));
  return pattern.test(glob.includes("/") ? path : path.slice(path.lastIndexOf("/") + 1));
}

function globPattern(glob: string): RegExp {
  let source = "";
  for (let i = 0; i < glob.length; i++) {
    const char = glob[i]!;
    const close = char === "[" ? glob.indexOf("]", i + 2) : -1;
    if (glob.startsWith("**/", i)) {
      source += "(?:.*/)?";
      i += 2;
    } else if (glob.startsWith("**", i)) {
      source += ".*";
      i++;
    } else if (char === "*") source += "[^/]*";
    else if (char === "?") source += "[^/]";
    else if (close > 0) {
      source += `[${glob.slice(i + 1, close).replace(/^!/, "^").replace(/[\\\]]/g, "\\$&")}]`;
      i = close;
    } else {
      if (char === "\\") i++;
      source += (glob[i] ?? "\\").replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    }
  }
  return new RegExp(`^${source}$`, "su");
}

interface KeptFile {
  path: string;
  bytes: Uint8Array<ArrayBuffer>;
  mode: number | null;
}

/** The protected files of one workspace. */
export class ProtectedFiles {
  private constructor(readonly root: string, readonly files: readonly KeptFile[]) {}

  /** Reads all regular files under `root` that match a glob. @throws {ServiceError} `environment_failed`. */
  static async keep(root: string, globs: readonly string[]): Promise<ProtectedFiles> {
    const files: KeptFile[] = [];
    let left = MAX_PROTECTED_BYTES;
    for await (const path of filesUnder(root, "")) {
      if (!globs.some((glob) => matchesGlob(glob, path))) continue;
      const { size, mode } = await Deno.stat(join(root, path));
      if ((left -= size) < 0) {
        throw new ServiceError(
          "environment_failed",
          `Cannot protect ${path}: the protected files exceed ${MAX_PROTECTED_BYTES} bytes (MAX_PROTECTED_BYTES)`,
        );
      }
      files.push({ path, bytes: await Deno.readFile(join(root, path)), mode });
    }
    return new ProtectedFiles(root, files);
  }

  /**
   * Restores all files, and replaces whatever is in their or their folders' places.
   *
   * @returns Whether one of them had been changed or removed.
   */
  async restore(): Promise<boolean> {
    let tampered = false;
    for (const { path, bytes, mode } of this.files) {
      const full = join(this.root, path);
      tampered ||= !await this.#isAsKept({ path, bytes, mode });
      await this.#restoreFolders(dirname(path));
      if (await Deno.lstat(full).catch(() => null)) await Deno.remove(full, { recursive: true });
      await Deno.writeFile(full, bytes);
      if (mode !== null) await Deno.chmod(full, mode & 0o7777);
    }
    return tampered;
  }

  async #isAsKept({ path, bytes, mode }: KeptFile): Promise<boolean> {
    const full = join(this.root, path);
    const info = await Deno.lstat(full).catch(() => null);
    if (!info?.isFile || info.mode !== mode || info.size !== bytes.length) return false;
    // A file below a link to a folder has been moved.
    if (await Deno.realPath(full).catch(() => null) !== full) return false;
    const now = await Deno.readFile(full).catch(() => null);
    return now !== null && now.every((byte, i) => byte === bytes[i]);
  }

  async #restoreFolders(path: string): Promise<void> {
    let at = this.root;
    for (const part of path === "." ? [] : path.split("/")) {
      at = join(at, part);
      const info = await Deno.lstat(at).catch(() => null);
      if (info?.isDirectory) continue;
      if (info) await Deno.remove(at);
      await Deno.mkdir(at);
    }
  }
}

async function* filesUnder(root: string, folder: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(join(root, folder))) {
    const path = folder ? `${folder}/${entry.name}` : entry.name;
    if (entry.isDirectory) yield* filesUnder(root, path);
    else if (entry.isFile) yield path;
  }
}
