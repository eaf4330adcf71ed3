/**
 * Addresses of pages. They stand behind the `#`, so that every view has a URL and the interface works under any path
 * prefix: `#/runs/run_01…/trajectories?update=3`.
 */

import { signal } from "@preact/signals";

/** An address of a page. */
export interface Place {
  /** `["runs", "run_01…"]` of `#/runs/run_01…`. */
  segments: readonly string[];
  query: URLSearchParams;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/** Reads the part of a URL from the `#` on. */
export function parsePlace(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  return {
    segments: path.split("/").filter((segment) => segment !== "").map(decoded),
    query: new URLSearchParams(search),
  };
}

type QueryValues = Readonly<Record<string, string | number | null | undefined>>;

/** The `href` of a page; values that are null or absent are left out. */
export function hrefOf(segments: readonly (string | number)[], query: QueryValues = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") search.append(name, String(value));
  }
  const path = segments.map((segment) => encodeURIComponent(String(segment))).join("/");
  return `#/${path}${search.size > 0 ? `?${search}` : ""}`;
}

/** The page that is shown. */
export const place = signal(parsePlace(globalThis.location?.hash ?? ""));

/** Keeps {@link place} equal to the address. */
export function followAddress(): void {
  addEventListener("hashchange", () => place.value = parsePlace(location.hash));
}

/** Changes the address without a new entry of the history, as filters do. */
export function replacePlace(segments: readonly (string | number)[], query: QueryValues): void {
  history.replaceState(null, "", hrefOf(segments, query));
  place.value = parsePlace(location.hash);
}
