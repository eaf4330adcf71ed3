/** Finds the routes of a path. */

import { assert } from "../../core/errors.ts";
import type { Method, Route } from "./route.ts";

/** A path of the table, with the request's values for its names. */
export interface FoundPath {
  /** The path in the table, with names for values. */
  pattern: string;
  routes: ReadonlyMap<Method, Route>;
  params: Record<string, string>;
  /** The value of `Allow`: HEAD is available wherever GET is. */
  allow: string;
}

interface Pattern {
  segments: readonly string[];
  routes: Map<Method, Route>;
}

/** A target's path and query as sent. Dots and escapes are not resolved, so that no other spelling reaches a route. */
export function splitTarget(target: string): { path: string; search: string } {
  // A proxy sends a full URL; the path starts after its authority.
  const relative = target.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/?#]*/i, "").split("#", 1)[0]!;
  const at = relative.indexOf("?");
  return at < 0
    ? { path: relative, search: "" }
    : { path: relative.slice(0, at), search: relative.slice(at + 1) };
}

/** A URL for a `Request`. It is always valid, and contains only the path and query of the target. */
export function requestUrl(target: string): string {
  const { path, search } = splitTarget(target);
  return `http://localhost${path.startsWith("/") ? path : "/"}${search && `?${search}`}`;
}

/** The decoded segments of a path; null when its percent-encoding is malformed. */
export function decodeSegments(path: string): string[] | null {
  try {
    return path.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
}

function isName(part: string): boolean {
  return part.startsWith("{");
}

/** A value that no name in a template matches, because clients and proxies remove these segments. */
function isUnnamed(value: string): boolean {
  return value === "" || value === "." || value === "..";
}

function allowHeader(methods: Iterable<Method>): string {
  return [...methods].flatMap((method) => method === "GET" ? ["GET", "HEAD"] : [method]).concat("OPTIONS")
    .join(", ");
}

/** Literal segments match before names, whatever the order of the table. */
function byLiterals(a: Pattern, b: Pattern): number {
  const rank = ({ segments }: Pattern) => segments.map((part) => isName(part) ? "1" : "0").join("");
  return rank(a) < rank(b) ? -1 : rank(a) > rank(b) ? 1 : 0;
}

/** Finds routes by the path as sent. */
export class Router {
  readonly #patterns: Pattern[] = [];

  /** @param routes Each method occurs once for a path. */
  constructor(routes: readonly Route[]) {
    const by_path = new Map<string, Pattern>();
    for (const route of routes) {
      const pattern = by_path.get(route.path) ?? { segments: route.path.split("/"), routes: new Map() };
      assert(!pattern.routes.has(route.method), `${route.method} ${route.path} stands once in the table`);
      pattern.routes.set(route.method, route);
      by_path.set(route.path, pattern);
    }
    this.#patterns.push(...[...by_path.values()].sort(byLiterals));
  }

  /** The routes at a path; null when there are none. */
  find(path: string): FoundPath | null {
    const sent = path.split("/");
    const decoded = decodeSegments(path);
    if (!decoded) return null;
    const pattern = this.#patterns.find(({ segments }) =>
      segments.length === sent.length &&
      segments.every((part, i) => isName(part) ? !isUnnamed(decoded[i]!) : part === sent[i])
    );
    if (!pattern) return null;
    const { segments, routes } = pattern;
    const params: Record<string, string> = {};
    for (const [i, part] of segments.entries()) if (isName(part)) params[part.slice(1, -1)] = decoded[i]!;
    return { pattern: segments.join("/"), routes, params, allow: allowHeader(routes.keys()) };
  }
}
