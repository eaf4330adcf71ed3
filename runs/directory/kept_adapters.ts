/** The adapters that a completed run keeps, and their names. */

import { parse } from "node:path";
import type { TrainingState } from "./checkpoint.ts";

/** The adapter of the last update, or of the best evaluated one. */
type AdapterChoice = "last" | "best";

export interface KeptAdapter {
  which: AdapterChoice;
  update: number;
  path: string;
}

/** `out/adapter.gguf` → `out/adapter_best.gguf`: the path of the adapter that was not chosen. */
export function siblingAdapter(path: string, which: AdapterChoice): string {
  const { dir, name, ext } = parse(path);
  return `${dir === "" ? "" : `${dir}/`}${name}_${which}${ext}`;
}

/**
 * The adapter for `[output].path`, as chosen by `[output].adapter`, and the other one; null when the last update is
 * also the best evaluated one or nothing was evaluated.
 */
export function keptAdapters(
  { path, adapter }: { path: string; adapter: AdapterChoice },
  { update, best }: Pick<TrainingState, "update" | "best">,
): { chosen: KeptAdapter; other: KeptAdapter | null } {
  const best_update = best?.update ?? update;
  if (best_update === update) return { chosen: { which: "last", update, path }, other: null };
  const updates = { last: update, best: best_update };
  const other = adapter === "last" ? "best" : "last";
  return {
    chosen: { which: adapter, update: updates[adapter], path },
    other: { which: other, update: updates[other], path: siblingAdapter(path, other) },
  };
}
