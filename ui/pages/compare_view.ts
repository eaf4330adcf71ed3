/** What the views of a comparison have in common. */

import type { Run, RunComparison } from "../../api/types.ts";
import { place, replacePlace } from "../routes.ts";
import type { CompareQuery } from "./compare_address.ts";

/** The compared runs. */
export interface ComparedProps {
  /** In the order of the address. */
  runs: readonly Run[];
  compared: RunComparison;
}

/** Changes values of the address besides the runs; null leaves one out. */
export function changeQuery(given: CompareQuery): void {
  const { segments, query } = place.value;
  replacePlace(segments, { ...Object.fromEntries(query), ...given });
}

/** Shows the same view of other runs. */
export function changeRuns(ids: readonly string[]): void {
  changeQuery({ runs: ids.join(",") });
}
