/** Warns when a run is evaluated on its training data. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import { sha256OfFile } from "../../core/files.ts";
import type { RunWarning } from "../record/warning.ts";

/** @param training The key of the training data, and its existing path. */
export async function heldoutWarnings(
  { key, path }: { key: string; path: string },
  { evaluation }: Pick<ResolvedConfig, "evaluation">,
): Promise<RunWarning[]> {
  if (!evaluation || !await isSameData(path, evaluation.data)) return [];
  return [{
    code: "heldout_is_training",
    field: "evaluation.data",
    message:
      `evaluation.data holds the same as ${key}: evaluations measure the tasks that are trained on, and say ` +
      "nothing about others; name data that the run does not train on",
  }];
}

/** Whether two paths have the same bytes: as one file, or as two. */
async function isSameData(a: string, b: string): Promise<boolean> {
  const [size_a, size_b] = await Promise.all([a, b].map(async (path) => (await Deno.stat(path)).size));
  return size_a === size_b && await sha256OfFile(a) === await sha256OfFile(b);
}
