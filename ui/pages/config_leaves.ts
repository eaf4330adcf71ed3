/** A configuration as a list. */

import { leafValues } from "../parts/values.ts";

/** The leaves of a configuration by dotted name, as JSON. Lists are leaves. */
export function leavesOf(config: unknown): [name: string, text: string][] {
  return leafValues(config).map(([name, value]) => [name, JSON.stringify(value)]);
}
