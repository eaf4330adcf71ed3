/**
 * A plan as clients see it: with catalogue ids in place of the operator's keys, paths as the client wrote them, and
 * none of the run's own paths.
 */

import { withoutOwnPaths } from "../../runs/directory/config_identity.ts";
import { CATALOGUE_KEYS } from "../../config/check/catalogue_tables.ts";
import { pathKeys } from "../../config/check/request_keys.ts";
import { type Table, valueAt } from "../../config/text/toml_tree.ts";
import type { Plan } from "../../runs/plan/plan.ts";

/** @param given.written The configuration as the client wrote it. */
export function publicPlan(plan: Plan, { written }: { written: Table }): Plan {
  const config = withoutOwnPaths(plan.config);
  // Derived from the place where the run's process finds its configuration.
  if (valueAt(written, ["run", "name"]) === undefined) delete (config.run as Table).name;
  for (const { path, value } of pathKeys(written, "input")) setAt(config, path, value);
  for (const path of CATALOGUE_KEYS) {
    const own = valueAt(written, path);
    if (own !== undefined && valueAt(config, path) !== undefined) setAt(config, path, own);
  }
  const sources = Object.fromEntries(
    Object.entries(plan.sources).filter(([key]) => valueAt(config, key.split(".")) !== undefined),
  );
  return { ...plan, config: config as unknown as Plan["config"], sources };
}

function setAt(tree: Table, path: readonly (string | number)[], value: unknown): void {
  const parent = valueAt(tree, path.slice(0, -1)) as Table | undefined;
  if (parent) parent[path.at(-1)!] = JSON.parse(JSON.stringify(value));
}
