/** Which runs are compared: the choice of them, and the addresses of the comparison. */

import { hrefOf, type Place } from "../routes.ts";

/** How many runs the server compares. */
export const MIN_COMPARED = 2, MAX_COMPARED = 8;

/** Why this many runs cannot be compared; null when they can. */
export function compareObstacle(chosen: number): string | null {
  if (chosen === 0) return `Tick ${MIN_COMPARED} to ${MAX_COMPARED} runs to compare them`;
  if (chosen < MIN_COMPARED) return `Tick one more run to compare`;
  return chosen > MAX_COMPARED ? `${chosen} are ticked; at most ${MAX_COMPARED} can be compared` : null;
}

/** The values of the address besides the runs, such as the scenario. */
export type CompareQuery = Readonly<Record<string, string | null | undefined>>;

/** The runs of an address, each once. */
export function comparedIds({ query }: Place): string[] {
  return [...new Set((query.get("runs") ?? "").split(",").filter((id) => id !== ""))];
}

/** The address of a comparison. @param view Its view; empty for the first. */
export function compareHref(ids: readonly string[], view = "", query: CompareQuery = {}): string {
  return hrefOf(view === "" ? ["compare"] : ["compare", view], { runs: ids.join(","), ...query });
}
