/** What was written for a new run, kept for the tab until it is started. */

import type { Plan, Run } from "../../../api/types.ts";
import type { ConfigKey } from "../../client/config_schema.ts";
import { configOf, type Draft, draftOf, EMPTY_DRAFT } from "./draft.ts";
import { tomlOf } from "./toml_text.ts";

/** The form and the text of the editor. */
export interface NewRun {
  mode: "recipe" | "toml";
  draft: Draft;
  text: string;
  /** The text as it was made from the recipe; the text itself differs from it once it is edited. */
  carried: string;
}

export const BLANK: NewRun = { mode: "recipe", draft: EMPTY_DRAFT, text: "", carried: "" };

const KEY = "svc.new_run";

type Store = Pick<Storage, "getItem" | "setItem" | "removeItem">;

/** What was kept; null when nothing was, or it is not readable. */
export function savedRun(store: Store): NewRun | null {
  try {
    const saved: Partial<NewRun> = JSON.parse(store.getItem(KEY) ?? "null");
    return saved && { ...BLANK, ...saved, draft: { ...EMPTY_DRAFT, ...saved.draft } };
  } catch {
    return null;
  }
}

/** Keeps it; a store without space keeps what it had. */
export function saveRun(store: Store, run: NewRun): void {
  try {
    store.setItem(KEY, JSON.stringify(run));
  } catch { /* the form works all the same */ }
}

export function forgetRun(store: Store): void {
  store.removeItem(KEY);
}

/** Whether the editor's text may be replaced by the recipe: nobody wrote in it. */
export function isUntouched({ text, carried }: NewRun): boolean {
  return text === carried || text.trim() === "";
}

/** A new run like another one: as a recipe, or as a text where a recipe cannot say it. */
export function likeRun(run: Pick<Run, "algorithm" | "config" | "plan">): NewRun {
  const draft = draftOf(run);
  if (draft) return { ...BLANK, draft };
  const text = tomlOf({ config: run.config, sources: run.plan?.sources ?? {}, warnings: [] }, "");
  return { ...BLANK, mode: "toml", text, carried: text };
}

/** Replaces the text by the recipe. @param plan The recipe's plan; without one, the text has what the recipe says itself. */
export function withRecipe(
  run: NewRun,
  { plan, keys }: { plan: Plan | null; keys: ReadonlyMap<string, ConfigKey> },
): NewRun {
  const { draft } = run, config = configOf(draft, keys);
  const text = tomlOf(plan ?? { config, sources: {}, warnings: [] }, draft.name.trim());
  return { ...run, text, carried: text };
}
