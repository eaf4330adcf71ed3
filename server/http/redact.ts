/** Removes the machine's paths from texts, for `redact_error_paths`. */

import { createHash } from "node:crypto";
import type { ProblemDocument } from "./problems.ts";

/** The characters, of a class in a pattern, that belong to the sentence when they follow a path. */
const END = `.,;:)\\]}>`;

/**
 * A character of a path. A quotation mark ends it before a space or a punctuation mark; a space does not, when the word
 * after it has a slash.
 */
const WORD = `(?:[^\\s"'\`]|["'\`](?![\\s${END}]|$))`;

/** Placeholders for a space in a known path, and for its start. No text has these characters of the private use area. */
const JOINT = "\ue000", START = "\ue001";

/** A word before a slash makes the path relative or a fraction, as in `and/or`, and so does a dot, as in `./a`. */
const BEFORE = `(?<![\\p{L}\\p{N}_.]|<path>)`;

/** A text with a slash that is no path: a URL, or a closing tag such as `</think>`. */
const NO_PATH = `(?<![\\p{L}\\p{N}_])(?!file:)[a-z][a-z0-9+.-]{0,30}://[^\\s"'\`]*|</[^\\s<>/]*>`;

/** An absolute path or one in a home folder. */
const PATH = new RegExp(
  `(?<other>${NO_PATH})|(?:${START}|${BEFORE}(?:file://|~[\\w-]*)?)/+(?!/)${WORD}+(?: +[\\p{L}\\p{N}_.][^\\s/"'\`]*/${WORD}*)*`,
  "giu",
);

/** The rest of a text after a pointer that ends there. */
const AFTER_POINTER = new RegExp(`^[${END}]*(?:\\s|$)`);

const ROUTE = /^\/v1(\/|$)/;

/** The most paths of a request that are known, the deepest place of one, and the most paths that are kept for the log. */
const MAX_PATHS = 200, MAX_DEPTH = 64, MAX_FOUND = 100;

/** The absolute paths among the texts of a request. A path with spaces cannot be told from prose otherwise. */
export function pathsIn(value: unknown): string[] {
  const found: string[] = [], waiting = [{ value, depth: 0 }];
  while (waiting.length > 0 && found.length < MAX_PATHS) {
    const { value, depth } = waiting.pop()!;
    if (typeof value === "string" && value.startsWith("/")) found.push(value);
    else if (typeof value === "object" && value !== null && depth < MAX_DEPTH) {
      for (const inner of Object.values(value)) waiting.push({ value: inner, depth: depth + 1 });
    }
  }
  return found;
}

/** A pattern for known paths; null when there are none. Longer ones come first, because a folder is a part of its paths. */
function knownPaths(known: readonly string[]): RegExp | null {
  const paths = [...new Set(known)].filter((path) => /^\/[^/]/.test(path)).sort((a, b) =>
    b.length - a.length
  );
  if (paths.length === 0) return null;
  return new RegExp(`(?:${paths.map(RegExp.escape).join("|")})(?![\\p{L}\\p{N}_])`, "gu");
}

/** Finds folders in what other programs wrote; null when there are none. A folder of one part is none after a letter. */
function ownFolders(folders: readonly string[]): RegExp | null {
  const found = folders.filter((folder) => /^\/[^/]/.test(folder)).sort((a, b) => b.length - a.length);
  if (found.length === 0) return null;
  const each = found.map((folder) => (folder.lastIndexOf("/") > 0 ? "" : BEFORE) + RegExp.escape(folder));
  return new RegExp(`(?<other>${NO_PATH})|(?:${each.join("|")})(?![\\p{L}\\p{N}_])`, "gu");
}

/** Shortens paths to `<path>/` and their last part. */
export class Redactor {
  readonly #known: RegExp | null;
  readonly #folders: readonly string[];
  readonly #found = new Set<string>();
  #own: RegExp | null | undefined;

  /**
   * Both kinds of paths may have spaces or follow a letter.
   *
   * @param folders The server's. @param named Paths in the request.
   */
  constructor(folders: readonly string[], named: readonly string[] = []) {
    this.#known = knownPaths([...folders, ...named]);
    this.#folders = folders;
  }

  /** Differs between servers with other folders, whose texts are shown otherwise. */
  get version(): string {
    const folders = JSON.stringify([...this.#folders].sort());
    return createHash("sha256").update(folders).digest("hex").slice(0, 16);
  }

  /** The paths that were shortened, up to a number of them. */
  get found(): readonly string[] {
    return [...this.#found];
  }

  /** @param pointers JSON pointers, which look like paths and stay. */
  text(text: string, pointers: readonly string[] = []): string {
    if (!text.includes("/")) return text;
    const marked = this.#known ? text.replace(this.#known, markedPath) : text;
    const short = marked.replace(PATH, (found, other: string | undefined) => {
      if (other !== undefined) return found;
      const pointer = pointers.find((pointer) =>
        found.startsWith(pointer) && AFTER_POINTER.test(found.slice(pointer.length))
      );
      if (pointer !== undefined) return pointer + this.text(found.slice(pointer.length), pointers);
      const path = withoutEnd(found);
      return ROUTE.test(path) ? found : this.#shorten(path) + found.slice(path.length);
    });
    return plain(short);
  }

  /** The output of a tool or a program: only the server's folders are replaced, by `<path>`. */
  printed(text: string): string {
    if (!text.includes("/")) return text;
    this.#own ??= ownFolders(this.#folders);
    if (!this.#own) return text;
    return text.replace(this.#own, (found, other: string | undefined) => {
      if (other !== undefined) return found;
      this.#remember(found);
      return "<path>";
    });
  }

  /** A value that is nothing but a path. A relative one is unchanged. */
  path(value: string): string {
    return /^[/~]/.test(value) ? this.#shorten(value) : value;
  }

  /** All texts in a value, as prose or as output of a program. */
  deep(value: unknown, kind: "text" | "printed" = "text"): unknown {
    if (typeof value === "string") return this[kind](value);
    if (Array.isArray(value)) return value.map((inner) => this.deep(inner, kind));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, this.deep(inner, kind)]));
  }

  /** A problem document: its prose, and all texts of its `meta`. */
  problem(document: ProblemDocument): ProblemDocument {
    const { detail, errors, meta, error } = document;
    const pointers = errors.map(({ pointer }) => pointer).filter((pointer) => pointer !== "");
    return {
      ...document,
      ...(error ? { error: { ...error, message: this.text(error.message, pointers) } } : {}),
      detail: this.text(detail, pointers),
      errors: errors.map(({ message, hint, ...entry }) => ({
        ...entry,
        message: this.text(message, pointers),
        ...(hint === undefined ? {} : { hint: this.text(hint, pointers) }),
      })),
      meta: this.deep(meta) as ProblemDocument["meta"],
    };
  }

  #shorten(path: string): string {
    const unmarked = plain(path);
    this.#remember(unmarked);
    return `<path>/${unmarked.split("/").findLast((part) => part !== "") ?? ""}`;
  }

  #remember(path: string): void {
    if (this.#found.size < MAX_FOUND) this.#found.add(path);
  }
}

/** A path without the last characters that belong to the sentence. A pattern would be slow: it tries each run of them. */
function withoutEnd(found: string): string {
  let length = found.length;
  while (END.includes(found[length - 1]!)) length--;
  return found.slice(0, length);
}

/** A known path of several parts is one also after a letter, as in `-I/srv/include`. */
function markedPath(path: string): string {
  return (path.indexOf("/", 1) > 0 ? START : "") + path.replaceAll(" ", JOINT);
}

function plain(text: string): string {
  return text.replaceAll(JOINT, " ").replaceAll(START, "");
}
