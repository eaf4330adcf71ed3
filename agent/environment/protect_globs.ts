/** Which files of a workspace a verification relies on. */

import { posix } from "node:path";
import type { Scenario } from "../../data/scenario.ts";
import { NO_ENV } from "./verdict.ts";

/** The globs to protect unless a scenario or the environment sets others. */
export const DEFAULT_PROTECT = ["test_*", "*_test.*", "tests/**"] as const;

/** What is protected in the workspaces of a scenario. */
export interface Protection {
  globs: readonly string[];
  /** Whether the verify command expects this file of the attempt, so that one that it adds stays. */
  isExpected(path: string): boolean;
}

/**
 * A scenario's protection: by its own globs, else the environment's, else those of what the verify command names and
 * {@link DEFAULT_PROTECT}. A command names
 *
 * - a file of `files`, by its path;
 * - a folder with files of `files`, by its path, and with it all that lies below;
 * - a Python module, after `-m`, and with it every file that Python could take for it.
 *
 * A path starts at the workspace's root, or in a folder that the command changes into with `cd`.
 */
export function protectionOf(scenario: Scenario, configured: readonly string[] | undefined): Protection {
  const verify = scenario.env?.verify, globs = protectGlobs(scenario, configured);
  if (!verify || verify.protect || configured) return { globs, isExpected: () => false };
  const command = new VerifyCommand(verify.command);
  return { globs, isExpected: (path) => command.names(path) };
}

/** The globs of {@link protectionOf}; none without a verify command. */
export function protectGlobs(scenario: Scenario, configured: readonly string[] | undefined): string[] {
  const verify = scenario.env?.verify;
  if (!verify) return [];
  if (verify.protect) return verify.protect;
  if (configured) return [...configured];
  const command = new VerifyCommand(verify.command), paths = Object.keys(scenario.env!.files);
  const folders = [...new Set(paths.flatMap(foldersOf))].filter((folder) => command.namesFolder(folder));
  return [
    ...paths.filter((path) => command.names(path)).map((path) => `/${escapeGlob(path)}`),
    ...folders.map((folder) => `/${escapeGlob(folder)}/**`),
    ...command.modules().flatMap(moduleGlobs),
    ...DEFAULT_PROTECT,
  ];
}

/**
 * Why a verification may rely on files of `files` that are not protected; null when nothing suggests it. What `setup`
 * makes is not known.
 */
export function protectionGap(scenario: Scenario, configured: readonly string[] | undefined): string | null {
  const { verify, files, setup } = scenario.env ?? NO_ENV, paths = Object.keys(files);
  if (!verify) return null;
  const globs = protectGlobs(scenario, configured);
  if (paths.some((path) => globs.some((glob) => matchesGlob(glob, path)))) return null;
  if (verify.protect) {
    const has_effect = verify.protect.length === 0 || setup.length > 0;
    return has_effect ? null : "its metadata.env.verify.protect matches no file of files";
  }
  const command = new VerifyCommand(verify.command);
  const name = paths.flatMap((path) => path.split("/")).find((name) => command.hints(name));
  if (name !== undefined) {
    return `its verify command has ${JSON.stringify(name)} in a form that names no file`;
  }
  if (paths.length === 0 || setup.length > 0 || command.isSelfContained()) return null;
  return "its verify command names no file, and no protected glob matches one";
}

/** Whether a file of an untouched workspace is kept. Python's caches never are. */
export function isKept({ globs }: Protection, path: string): boolean {
  return !isCache(path) && globs.some((glob) => matchesGlob(glob, path));
}

/** Whether an attempt that added this file tampered with the verification: it is removed. */
export function isAdded({ globs, isExpected }: Protection, path: string): boolean {
  return globs.some((glob) => matchesGlob(glob, path)) && !isExpected(path);
}

/** Python loads what lies in such a folder in place of a source file, which would not show it. */
export function isCache(path: string): boolean {
  return /(?:^|\/)__pycache__\//.test(path);
}

const escapeGlob = (path: string) => path.replace(/[*?[\\]/g, "\\$&");

/** `a/b/c` → `a`, `a/b` */
function foldersOf(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, i) => parts.slice(0, i + 1).join("/"));
}

/** The places of a module, in any form that Python loads, and of the packages around it. */
function moduleGlobs(path: string): string[] {
  const forms = ["py", "pyc", "so", "*.so"];
  const packages = foldersOf(path).flatMap((at) => [`${at}/__init__`, at]);
  return [
    ...[...packages, path].flatMap((place) => forms.map((form) => `/${escapeGlob(place)}.${form}`)),
    `/${escapeGlob(path)}/**`,
  ];
}

/** A character that can be next to a path in a command: anything that cannot be part of a path. */
const BESIDE_PATH = /[^\p{L}\p{N}_./~-]/u;

/** Spellings of the workspace's root at the start of a path; `/work` in sandboxes. */
const FROM_ROOT = /(?<![\p{L}\p{N}_.\/~-])(?:\$\{?PWD\}?\/|\/work\/)?(?:\.\/+)*$/u;

/** `cd x` as a command of a shell. */
const CHANGE = /(?<=^|[\s;&|(])cd\s+(?:--\s+)?["']?(?:\$\{?PWD\}?\/|\/work\/)?([^\s;&|()"']+)["']?/gu;

/** The module of `python3 -m x`, and that of `python3 -m unittest x`. */
const MODULE =
  /(?<=\bpython[\d.]*\s(?:[^;&|]*\s)?)-\w*m\s*([\p{L}_][\p{L}\p{N}_.]*)(?:(?<=\sunittest)(?:\s+-\w+)*\s+([\p{L}_][\p{L}\p{N}_.]*))?/gu;

/** What a verify command mentions. */
class VerifyCommand {
  readonly #texts: readonly string[];
  /** From which paths may start: the root, and where the command changes into. */
  readonly #places: readonly string[];

  constructor(readonly command: readonly string[]) {
    const places = new Set([""]);
    this.#texts = command.map((argument) =>
      simplePaths(argument).replace(CHANGE, (_, folder) => {
        for (const place of [...places]) places.add(posix.join(place, folder).replace(/^\.?\/|\/$/g, ""));
        return "";
      })
    );
    this.#places = [...places];
  }

  /** Whether it has a path as a separate word: `data.txt` does not contain `a.txt`, nor does `x/a.txt`. */
  names(path: string): boolean {
    return this.#mentions(path, /^\.(?=\s|$)/);
  }

  namesFolder(path: string): boolean {
    return this.#mentions(path, /^\/+/);
  }

  /** The paths of modules that it runs, without their extensions. */
  modules(): string[] {
    const found = [...this.#texts.join(" ").matchAll(MODULE)].flatMap(([, ...names]) => names);
    const paths = found.filter((name) => name !== undefined).map((name) => name.replaceAll(".", "/"));
    return [...new Set(paths.flatMap((path) => this.#places.map((place) => posix.join(place, path))))];
  }

  /** Whether the name of a file or folder occurs, in whatever case, except as the value of a comparison (`= name`). */
  hints(name: string): boolean {
    const word = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const pattern = new RegExp(`(?<![\\p{L}\\p{N}_.~-]|=\\s+["']?)${word}(?![\\p{L}\\p{N}_~-])`, "iu");
    return this.command.some((argument) => pattern.test(argument));
  }

  /** Whether its arguments are a program, or name a file that the attempt may have to make. */
  isSelfContained(): boolean {
    return this.command.slice(1).some((argument) =>
      /^-\w*[ce]$|^eval$|[\p{L}\p{N}_]*[./][\p{L}\p{N}]/u.test(argument)
    );
  }

  #mentions(path: string, end: RegExp): boolean {
    return this.#places.some((place) => {
      const word = posix.relative(place, path);
      return word !== "" && this.#texts.some((text) => hasWord(text, word, end));
    });
  }
}

/** @param end What may follow the word besides. */
function hasWord(text: string, word: string, end: RegExp): boolean {
  const ends = (char: string | undefined) => char === undefined || BESIDE_PATH.test(char);
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const before = text.slice(0, at).replace(FROM_ROOT, "");
    const after = text.slice(at + word.length).replace(end, "");
    if (ends([...before].at(-1)) && ends([...after][0])) return true;
  }
  return false;
}

/** Paths without `x/..`, `/./` and `//`. */
function simplePaths(text: string): string {
  const shorter = text.replaceAll(/\/(?:\.?\/)+/g, "/")
    .replaceAll(
      /(?<![^\s"'=:,(<>|&;\/])(?!\.\.?\/)[^\s"'=:,(<>|&;\/]+\/\.\.(?:\/|(?![\p{L}\p{N}_.-]))/gu,
      "",
    );
  return shorter === text ? text : simplePaths(shorter);
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
