/** A configuration as a list. */

import type { Plan } from "../../api/types.ts";
import { leafValues } from "../parts/values.ts";

/** The leaves of a configuration by dotted name, as JSON. Lists are leaves. */
export function leavesOf(config: unknown): [name: string, text: string][] {
  return leafValues(config).map(([name, value]) => [name, JSON.stringify(value)]);
}

/** What stands for the source of a value that a person set. */
export const GIVEN = "given";

/** Where a value comes from, for people: what overrides a rule was given, and so were ids, which have no source. */
export function sourceOf(sources: Plan["sources"] | undefined, name: string): string {
  const source = sources?.[name] ?? "override";
  return source === "override" ? GIVEN : source;
}
