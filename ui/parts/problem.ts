/** What a problem document says to people, without what it says twice. */

import type { Problem } from "../../api/types.ts";
import { hrefOf } from "../routes.ts";

/**
 * The detail of a problem; null when its list says the same: the server often makes a detail of the first entry, its
 * place and the number of the others.
 */
export function ownDetail({ detail, errors: [first] }: Pick<Problem, "detail" | "errors">): string | null {
  const said = detail.replace(/, and \d+ more$/, "");
  return first && said.endsWith(first.message) ? null : detail;
}

/** What is not there, when it is the address of the page that names it; null for any other problem. */
export function missingOf(
  { status, detail, errors }: Pick<Problem, "status" | "detail" | "errors">,
): string | null {
  const is_address = errors.length > 0 && errors.every(({ pointer }) => pointer.startsWith("/path/"));
  // The rest of the sentence is for programs: "; GET /v1/runs lists them".
  return status === 404 && is_address ? detail.replace(/; [A-Z]+ \/\S+ .*$/, "") : null;
}

/** A link to a page above another. */
export interface WayBack {
  href: string;
  label: string;
}

/** The pages above that of an address, the nearest first. */
export function waysBack([first, id, view, part]: readonly string[]): WayBack[] {
  if (first === "datasets" && id !== undefined) return [{ href: hrefOf([first]), label: "All datasets" }];
  const ways = [{ href: hrefOf(["runs"]), label: "All runs" }];
  if (first !== "runs" || id === undefined) return ways;
  if (view !== undefined) ways.unshift({ href: hrefOf([first, id]), label: "The run" });
  if (view === "trajectories" && part !== undefined) {
    ways.unshift({ href: hrefOf([first, id, view]), label: "All updates" });
  }
  return ways;
}
