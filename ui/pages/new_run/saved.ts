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
  /** The run that it began as a copy of. */
  from: string | null;
  /** What was written for another run when this one was begun. */
  before: NewRun | null;
}

export const BLANK: NewRun = {
  mode: "recipe",
  draft: EMPTY_DRAFT,
  text: "",
  carried: "",
  from: null,
  before: null,
};

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

/** Forgets the run that is started; what was written for another one is there again. */
export function forgetRun(store: Store): void {
  const before = savedRun(store)?.before ?? null;
  if (before) saveRun(store, before);
  else store.removeItem(KEY);
}

/** Whether the editor's text may be replaced by the recipe: nobody wrote in it. */
export function isUntouched({ text, carried }: NewRun): boolean {
  return text === carried || text.trim() === "";
}

/** A new run like another one: as a recipe, or as a text where a recipe cannot say it. */
export function likeRun(run: Pick<Run, "id" | "algorithm" | "config" | "plan">): NewRun {
  const draft = draftOf(run), from = run.id;
  if (draft) return { ...BLANK, draft, from };
  const text = tomlOf({ config: run.config, sources: run.plan?.sources ?? {}, warnings: [] }, "");
  return { ...BLANK, mode: "toml", text, carried: text, from };
}

/** Whether the copy of a run was begun before: that is shown as it was left, also when the run is deleted. */
export function isBegun(id: string, saved: NewRun | null): boolean {
  return saved?.from === id;
}

/**
 * A copy of another run, which keeps what was written.
 *
 * @param fresh What the page opens with when nothing was written: that need not be kept.
 */
export function copyOf(
  run: Parameters<typeof likeRun>[0],
  { saved, fresh }: { saved: NewRun | null; fresh: NewRun },
): NewRun {
  const is_written = saved !== null &&
    (!isUntouched(saved) || JSON.stringify(saved.draft) !== JSON.stringify(fresh.draft));
  return { ...likeRun(run), before: is_written ? saved : saved?.before ?? null };
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
