/** The parent of a fork, and what a fork may change. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { changedKeys, flattenConfig, isForkableKey } from "../../runs/directory/config_identity.ts";
import { refusal as commandRefusal } from "../../runs/record/run.ts";
import { notFound } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";

export interface Fork {
  parent: { run: string; checkpoint: string; directory: string; config: ResolvedConfig };
  /** Why the parent's state does not allow a fork; null when it does. */
  refusal: string | null;
}

/** The checkpoint that a request names. @throws {Problem} `not-found` at the field. */
export async function forkOf(
  { run, checkpoint }: { run: string; checkpoint?: string | undefined },
  { fleet }: Pick<Services, "fleet">,
): Promise<Fork> {
  const kept = fleet?.get(run);
  if (!kept) throw notFound("There is no such run", "/fork_from/run");
  const { config } = kept.service.plan, names = await kept.checkpoints();
  const newest = names.at(-1) ?? "";
  if (checkpoint !== undefined && !names.includes(checkpoint)) {
    throw notFound("The run has no such checkpoint", "/fork_from/checkpoint");
  }
  const name = checkpoint ?? newest;
  const reason = commandRefusal("fork", kept.record.state, await kept.facts());
  const directory = `${kept.checkpointRoot}/${name}`;
  return { parent: { run, checkpoint: name, directory, config }, refusal: reason };
}

/** Keys without an effect on the training. */
const FREE = ["run.name"];

/** The keys that two resolved configurations set differently and that a fork may not change, sorted. */
export function forkChanges(parent: Record<string, unknown>, fork: Record<string, unknown>): string[] {
  const [before, after] = [parent, fork].map((config) => Object.fromEntries(flattenConfig(config)));
  return changedKeys(before!, after!).filter((key) => !FREE.includes(key) && !isForkableKey(key));
}
