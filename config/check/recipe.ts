/** Recipes: the short form of a run configuration. */

import { ALGORITHM_KEYS, type AlgorithmName } from "../algorithms.ts";
import type { Finding } from "./issues.ts";
import { isPrefix, valueAt } from "../text/toml_tree.ts";

type Path = readonly (string | number)[];

/** The degradations that a recipe may allow. */
export const DEGRADATIONS = ["truncate_context", "exceed_train_context"] as const;

/** One of {@link DEGRADATIONS}. */
export type Degradation = typeof DEGRADATIONS[number];

/** A recipe whose form has been checked. */
export interface Recipe {
  recipe: AlgorithmName;
  model: string;
  data?: string | undefined;
  scenarios?: string | undefined;
  objective?:
    | {
      reward?: string | undefined;
      judge?: string | undefined;
      environment?: string | undefined;
      mcp_servers?: readonly string[] | undefined;
    }
    | undefined;
  budget?:
    | { updates?: number | undefined; epochs?: number | undefined; minutes?: number | undefined }
    | undefined;
  /** By dotted configuration key. */
  params?: Readonly<Record<string, unknown>> | undefined;
}

/** Fields of a recipe that a fork repeats or changes. */
export type RecipeChanges = { [K in keyof Recipe]?: Recipe[K] | undefined };

/** A configuration that a request stands for. */
export interface ExpandedRequest {
  tree: Record<string, unknown>;
  /** The place in the request of a key of the tree, from the key itself to the tree's root. */
  placeOf(path: Path): Path;
  /** Whether the request itself sets a key, a part of it or a table around it. */
  sets(path: Path): boolean;
  /** Fields that the form of the request does not allow together. */
  findings: (Finding & { is_conflict?: true })[];
}

/** The updates of a recipe with attempts and without a budget. */
export const DEFAULT_RECIPE_UPDATES = 100;

/** The fields of a recipe, the keys that they set, and their values. */
function fieldsOf(recipe: RecipeChanges): [field: Path, key: Path, value: unknown][] {
  if (recipe.recipe === undefined) return [];
  const { objective = {}, budget = {} } = recipe, { data, updates_key } = ALGORITHM_KEYS[recipe.recipe];
  const field = data.recipe_field, updates = updates_key.split(".");
  return [
    [["recipe"], ["run", "algorithm"], recipe.recipe],
    [["model"], ["model", "path"], recipe.model],
    [[field], data.key.split("."), recipe[field]],
    [["objective", "reward"], ["agent", "reward"], objective.reward],
    [["objective", "judge"], ["agent", "judge", "id"], objective.judge],
    [["objective", "environment"], ["agent", "environment", "id"], objective.environment],
    ...(objective.mcp_servers ?? []).map((id, i): [Path, Path, unknown] => [
      ["objective", "mcp_servers", i],
      ["agent", "mcp_servers", i, "id"],
      id,
    ]),
    [["budget", "updates"], updates, budget.updates],
    [["budget", "epochs"], ["training", "epochs"], budget.epochs],
    [["budget", "minutes"], ["training", "max_minutes"], budget.minutes],
  ];
}

/**
 * The configuration of a recipe. It always has checkpoints; a recipe whose attempts are conversations exports them.
 * `params` set further keys and are never dropped: one that another field sets too is a conflict.
 */
export function expandRecipe(recipe: Recipe): ExpandedRequest {
  const tree: Record<string, unknown> = Object.create(null);
  const { has_rollouts, updates_key, data: { recipe_field: field } } = ALGORITHM_KEYS[recipe.recipe];
  setAt(tree, ["checkpoint"], {});
  if (has_rollouts) {
    setAt(tree, ["observe"], {});
    setAt(tree, updates_key.split("."), DEFAULT_RECIPE_UPDATES);
  }
  const expanded = changeTree(tree, recipe);
  if (recipe[field] !== undefined) return expanded;
  const missing: Finding = { path: [field], code: "missing_field", message: "is missing" };
  return { ...expanded, findings: [missing, ...expanded.findings] };
}

/** The field of a fork that stands for all keys which the fork itself does not set. */
const PARENT = ["fork_from", "run"];

/**
 * The configuration of a fork: its parent's, with what a recipe of any fields changes.
 *
 * @param parent Empty when it is not known; without an algorithm the fields of recipes have no keys.
 */
export function expandFork(parent: Record<string, unknown>, changes: RecipeChanges): ExpandedRequest {
  const recipe = changes.recipe ?? valueAt(parent, ["run", "algorithm"]) as AlgorithmName | undefined;
  const expanded = changeTree(structuredClone(parent), { ...changes, recipe });
  const sets = (path: Path) =>
    expanded.sets(path) && (changes.recipe !== undefined || path.join(".") !== "run.algorithm");
  return { ...expanded, sets, placeOf: (path) => sets(path) ? expanded.placeOf(path) : PARENT };
}

function changeTree(tree: Record<string, unknown>, recipe: RecipeChanges): ExpandedRequest {
  const places: [key: Path, place: Path][] = [];
  const findings: ExpandedRequest["findings"] = wrongFields(recipe);
  const all = fieldsOf(recipe), fields = all.filter(([, , value]) => value !== undefined);
  const set = [
    ...fields.map(([, key]) => key),
    ...Object.keys(recipe.params ?? {}).map((key) => key.split(".")),
  ];
  const names = new Set(Object.keys(recipe.params ?? {}));
  for (const [place, key] of all) places.push([key, place]);
  for (const [, key, value] of fields) setAt(tree, key, value);
  for (const [name, value] of Object.entries(recipe.params ?? {})) {
    const key = name.split("."), place = ["params", name];
    places.push([key, place]);
    const other = fields.find(([, set]) => isPrefix(set, key) || isPrefix(key, set));
    const same = key.slice(1).map((_, i) => key.slice(0, i + 1).join(".")).find((above) => names.has(above));
    if (other && JSON.stringify(other[2]) !== JSON.stringify(value)) {
      findings.push(conflict(place, `says another value than /${other[0].join("/")}; give one of them`));
    } else if (same !== undefined) {
      findings.push(conflict(place, `is part of params["${same}"]; give one of them`));
    } else if (!other && isBeyondList(tree, key)) {
      findings.push({ path: place, code: "unknown_field", message: "names no entry of the list" });
    } else if (!other) setAt(tree, key, value);
  }
  const sets = (path: Path) => set.some((key) => isPrefix(key, path) || isPrefix(path, key));
  return { tree, placeOf: (path) => placeOf(path, places), sets, findings };
}

const conflict = (path: Path, message: string) => ({
  path: [...path],
  code: "invalid_value" as const,
  message,
  is_conflict: true as const,
});

/** Fields that a recipe of this kind does not have. */
function wrongFields(recipe: RecipeChanges): Finding[] {
  if (recipe.recipe === undefined) return [];
  const { data: { recipe_field: field }, has_rollouts } = ALGORITHM_KEYS[recipe.recipe],
    other = field === "data" ? "scenarios" : "data";
  const findings: Finding[] = [];
  const refuse = (path: Path, hint?: string) =>
    findings.push({
      path: [...path],
      code: "invalid_value",
      message: `has no meaning for ${recipe.recipe}`,
      ...(hint === undefined ? {} : { hint }),
    });
  if (recipe[other] !== undefined) refuse([other], `did you mean "${field}"?`);
  if (!has_rollouts) {
    if (recipe.objective !== undefined) refuse(["objective"]);
    return findings;
  }
  if (recipe.budget?.epochs !== undefined) refuse(["budget", "epochs"], 'did you mean "updates"?');
  if (recipe.budget?.minutes !== undefined) refuse(["budget", "minutes"], 'did you mean "updates"?');
  return findings;
}

/** The field that sets a key, or one above or below it; else the key in `params`. */
function placeOf(path: Path, places: readonly [Path, Path][]): Path {
  const above = places.findLast(([key]) => isPrefix(key, path));
  if (above) return [...above[1], ...path.slice(above[0].length)];
  const below = places.find(([key]) => path.length > 1 && isPrefix(path, key));
  return below?.[1] ?? ["params", path.join(".")];
}

/** Whether a key is in an entry that a list does not have: a large index would make the list as long. */
function isBeyondList(tree: Record<string, unknown>, key: Path): boolean {
  return key.some((part, i) => {
    const table = valueAt(tree, key.slice(0, i));
    return Array.isArray(table) && !Object.hasOwn(table, part);
  });
}

function setAt(tree: Record<string, unknown>, path: Path, value: unknown): void {
  let table: Record<PropertyKey, unknown> = tree;
  for (const [i, part] of path.slice(0, -1).entries()) {
    const found = valueAt(table, [part]);
    const is_table = typeof found === "object" && found !== null;
    table =
      (is_table ? found : table[part] = typeof path[i + 1] === "number" ? [] : Object.create(null)) as Record<
        PropertyKey,
        unknown
      >;
  }
  table[path.at(-1)!] = value;
}
