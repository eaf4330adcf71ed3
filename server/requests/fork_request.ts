/** The parent of a fork: the values that the fork inherits, and those that it may not change. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { setKey, type Table } from "../../config/text/toml_tree.ts";
import { flattenConfig, isForkableKey } from "../../runs/directory/config_identity.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import type { Plan } from "../../runs/plan/plan.ts";
import { commandRefusal } from "../../runs/record/run.ts";
import { notFound } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";

type Sources = Plan["sources"];

export interface Fork {
  parent: { run: string; checkpoint: string; directory: string; config: ResolvedConfig; sources: Sources };
  /** Why the parent's state does not allow a fork; null when it does. */
  refusal: string | null;
}

/** The fork that a request asks for, from the checkpoint that it names or the newest. @throws {Problem} `not-found` at the field. */
export async function findFork(
  { run, checkpoint }: { run: string; checkpoint?: string | undefined },
  { fleet }: Pick<Services, "fleet">,
): Promise<Fork> {
  const parent = fleet?.get(run);
  if (!parent) throw notFound("There is no such run", "/fork_from/run");
  const { config, sources } = parent.service.plan, names = await parent.checkpoints();
  const newest = names.at(-1) ?? "";
  if (checkpoint !== undefined && !names.includes(checkpoint)) {
    throw notFound("The run has no such checkpoint", "/fork_from/checkpoint");
  }
  const name = checkpoint ?? newest;
  const reason = commandRefusal("fork", parent.record.state, await parent.facts());
  const directory = `${parent.checkpointRoot}/${name}`;
  return { parent: { run, checkpoint: name, directory, config, sources }, refusal: reason };
}

/** Whether the request of a run did not set a key. A key without a source, such as an entry of a list, counts as set. */
const isUnset = (key: string, sources: Sources) => sources[key] === "default" || sources[key] === "derived";

/** The keys that a run's request set, with its sections; null when there is no such run. */
export function parentKeys(run: string, { fleet }: Pick<Services, "fleet">): Table | null {
  const parent: Pick<ManagedRun, "service"> | null = fleet?.get(run) ?? null;
  if (!parent) return null;
  const { config, sources } = parent.service.plan, tree: Table = {};
  for (const section of Object.keys(config)) tree[section] = {};
  for (const [key, value] of flattenConfig(config)) {
    if (!isUnset(key, sources)) setKey(tree, key, structuredClone(value));
  }
  return tree;
}

/**
 * The parent's values of the keys that a fork may not change and that neither request set, by dotted key. They may have
 * been derived from the parent's device or from levers.
 */
export function inheritedValues(
  { config, sources }: Pick<Fork["parent"], "config" | "sources">,
  sets: (path: string[]) => boolean,
): Record<string, unknown> {
  return Object.fromEntries(
    [...flattenConfig(config)].filter(([key]) =>
      isUnset(key, sources) && !isForkableKey(key) && !sets(key.split("."))
    ),
  );
}

/** The sources of a fork's values: inherited values have the source that they have in the parent. */
export function forkSources(
  sources: Sources,
  { parent, sets }: { parent: Sources; sets: (path: string[]) => boolean },
): Sources {
  return Object.fromEntries(
    Object.entries(sources).map((
      [key, source],
    ) => [key, sets(key.split(".")) ? source : parent[key] ?? source]),
  );
}
