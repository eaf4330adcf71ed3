/** The calls by which programs make and publish files, as `strace` tells them when they begin. */

import { basename, dirname, join, relative } from "node:path";

/** For `strace -e`. */
export const DURABLE_CALLS = [
  ...["fsync", "fdatasync", "ftruncate", "truncate", "rename", "renameat", "renameat2", "link", "linkat"],
  ...["unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "symlink", "symlinkat"],
] as const;

/** Those after which a folder has a new name in it. */
const MAKES_NAME = /^(rename|link|mkdir|symlink)/;
/** What differs from one run to the next: ids, random names, and the numbers of updates. */
const RANDOM_NAMES =
  /[0-9A-HJKMNP-TV-Z]{26}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{12,}|(?<=update_)\d+/g;
/** The files of an agent, which a run makes anew. */
const INSIDE_WORKSPACE = /(\/workspaces\/[^/]+)\/.*/;
/** The files of a folder that is not published yet, or not any more: removing one is as good as removing another. */
const INSIDE_UNPUBLISHED = /(\/\.(new|gone|upload|deleted)[^/]*)\/.*/;

/** A call that a thread has begun. */
export interface BegunCall {
  thread: number;
  time_ms: number;
  call: string;
  /** The file or folder, or the new name of one. */
  path: string;
}

/** Reads what `strace -f -y -ttt` writes, also the line of a call that has not returned. */
export class TraceReader {
  #rest = "";
  /** Whether the call of the incomplete line is known. */
  #is_known = false;

  /** @returns The calls that begin in the next piece of its output. */
  take(piece: string): BegunCall[] {
    const lines = (this.#rest + piece).split("\n"), begun: BegunCall[] = [];
    this.#rest = lines.at(-1)!;
    for (const line of lines) {
      const call = this.#is_known ? null : begunCall(line);
      if (call) begun.push(call);
      this.#is_known = line === this.#rest && (this.#is_known || call !== null);
    }
    return begun;
  }
}

/** Null for lines of another kind, and for those that do not have all paths yet. */
function begunCall(line: string): BegunCall | null {
  const [, thread, seconds, call = "", given = ""] = /^(\d+) +(\d+\.\d+) (\w+)\((.*)/.exec(line) ?? [];
  const names = [...given.matchAll(/"([^"]*)"/g)].map(([, name]) => name!);
  const opened = [...given.matchAll(/[\dD]<([^>]*)>/g)].map(([, path]) => path!);
  const needed = /^(rename|link|symlink)/.test(call) ? 2 : /sync$|truncate$/.test(call) ? 0 : 1;
  const path = names.at(-1) ?? opened[0];
  if (path === undefined || names.length < needed) return null;
  const folder = path.startsWith("/") ? "/" : opened.at(-1) ?? "/";
  return { thread: Number(thread), time_ms: Number(seconds) * 1000, call, path: join(folder, path) };
}

/** The distinct steps below a folder, and how often a process was killed at each. */
export class DurableSteps {
  readonly #folder: string;
  readonly #enough: number;
  readonly #kills = new Map<string, number>();
  /** The name that each folder got last from a server. */
  readonly #last_names = new Map<string, string>();

  /** @param enough So many kills are enough for a step. */
  constructor(folder: string, enough: number) {
    [this.#folder, this.#enough] = [folder, enough];
  }

  /** The kills by step. */
  get kills(): ReadonlyMap<string, number> {
    return this.#kills;
  }

  isDone(step: string): boolean {
    return this.#kills.get(step)! >= this.#enough;
  }

  /** Forgets the names that folders got: the next calls are those of a new server. */
  startAgain(): void {
    this.#last_names.clear();
  }

  /**
   * The step that a call is: who makes it, the call and its path without what is random. Flushing a folder is another step
   * after each name that the folder may get. Null outside of the folder.
   */
  found(by: string, { call, path }: Pick<BegunCall, "call" | "path">): string | null {
    const below = relative(this.#folder, path);
    if (below.startsWith("..")) return null;
    const known = below.replace(RANDOM_NAMES, "*").replace(INSIDE_WORKSPACE, "$1/*");
    const name = call.startsWith("unlink") ? known.replace(INSIDE_UNPUBLISHED, "$1/*") : known;
    const last_name = call.endsWith("sync") ? this.#last_names.get(name) : undefined;
    if (MAKES_NAME.test(call)) this.#last_names.set(dirname(name), basename(name));
    const step = `${by}: ${call} ${name || "."}${last_name === undefined ? "" : ` after ${last_name}`}`;
    if (!this.#kills.has(step)) this.#kills.set(step, 0);
    return step;
  }

  /** Counts a kill at a step that was found. */
  killedAt(step: string): void {
    this.#kills.set(step, this.#kills.get(step)! + 1);
  }
}
