/** Recipes: the short form of a run configuration. */

import { MAX_JSON_DEPTH } from "../../core/json.ts";
import { ALGORITHM_KEYS, type AlgorithmName, ALGORITHMS, isUnused } from "../algorithms.ts";
import { CATALOGUE_KEYS, objectivePlaces, type RecipeObjective } from "./catalogue_tables.ts";
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
  objective?: RecipeObjective<string> | undefined;
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

/** The fields that name data, of all algorithms. */
const DATA_FIELDS = new Set(Object.values(ALGORITHM_KEYS).map(({ data }) => data.recipe_field));

/** The fields of an algorithm's recipe besides its objective, and the keys that they set. */
function keysOfFields(algorithm: AlgorithmName): [field: Path, key: string][] {
  const { data, updates_key } = ALGORITHM_KEYS[algorithm];
  return [
    [["recipe"], "run.algorithm"],
    [["model"], "model.path"],
    [[data.recipe_field], data.key],
    [["budget", "updates"], updates_key],
    [["budget", "epochs"], "training.epochs"],
    [["budget", "minutes"], "training.max_minutes"],
  ];
}

/** The keys that a field, or a part of it, sets in the recipe of some algorithm. */
export function keysOfField(field: string): (string | number)[][] {
  if (field === "objective") return [...CATALOGUE_KEYS];
  const keys = ALGORITHMS.flatMap(keysOfFields).filter(([[name]]) => name === field).map(([, key]) => key);
  return [...new Set(keys)].map((key) => key.split("."));
}

type Field = [field: Path, key: Path, value: unknown];

/** The fields of a recipe, the keys that they set, and their values. */
function fieldsOf(recipe: RecipeChanges): Field[] {
  if (recipe.recipe === undefined) return [];
  const own = keysOfFields(recipe.recipe).map(([field, key]): Field => {
    return [field, key.split("."), valueAt(recipe, field)];
  });
  // An objective that has no meaning sets nothing, so that its keys need no others.
  if (!ALGORITHM_KEYS[recipe.recipe].has_rollouts) return own;
  const ids = objectivePlaces(recipe.objective ?? {}).map(({ place, id_key, given }): Field => {
    return [place, id_key, given];
  });
  return [...own, ...ids];
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
 * The algorithm stays the parent's: where the changes name another one, which is refused later, its fields change nothing.
 *
 * @param parent Empty when it is not known; without an algorithm the fields of recipes have no keys.
 */
export function expandFork(parent: Record<string, unknown>, changes: RecipeChanges): ExpandedRequest {
  const own = valueAt(parent, ["run", "algorithm"]) as AlgorithmName | undefined;
  const recipe = own ?? changes.recipe, is_other = changes.recipe !== undefined && changes.recipe !== recipe;
  const kept = is_other ? withoutAlgorithm(changes) : changes;
  const expanded = changeTree(structuredClone(parent), { ...kept, recipe });
  const sets = (path: Path) =>
    expanded.sets(path) && (changes.recipe !== undefined || path.join(".") !== "run.algorithm");
  return { ...expanded, sets, placeOf: (path) => sets(path) ? expanded.placeOf(path) : PARENT };
}

/** The changes without the fields that depend on the algorithm. */
function withoutAlgorithm(changes: RecipeChanges): RecipeChanges {
  const fields = Object.entries(changes).filter(([field]) => !DATA_FIELDS.has(field as never));
  const { objective: _, ...rest } = Object.fromEntries(fields) as RecipeChanges;
  return rest;
}

/** Whether a dotted key nests deeper than JSON may; the work with a key grows with its parts. */
function isTooDeep(name: string): boolean {
  return name.split(".", MAX_JSON_DEPTH + 1).length > MAX_JSON_DEPTH;
}

function changeTree(tree: Record<string, unknown>, recipe: RecipeChanges): ExpandedRequest {
  const places: [key: Path, place: Path][] = [];
  const findings: ExpandedRequest["findings"] = wrongFields(recipe);
  const given = Object.entries(recipe.params ?? {}), params = given.filter(([name]) => !isTooDeep(name));
  for (const [name] of given.filter(([name]) => isTooDeep(name))) {
    const message = `has more than ${MAX_JSON_DEPTH} parts`;
    findings.push({ path: ["params", name], code: "unknown_field", message });
  }
  const all = fieldsOf(recipe), fields = all.filter(([, , value]) => value !== undefined);
  const set = [
    ...fields.map(([, key]) => key),
    ...params.map(([name]) => name.split(".")),
  ];
  const names = new Set(params.map(([name]) => name));
  for (const [place, key] of all) places.push([key, place]);
  for (const [, key, value] of fields) setAt(tree, key, value);
  for (const [name, value] of params) {
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
  const { data: { recipe_field: field }, has_rollouts } = ALGORITHM_KEYS[recipe.recipe];
  const findings: Finding[] = [];
  const refuse = (path: Path, hint?: string) =>
    findings.push({
      path: [...path],
      code: "invalid_value",
      message: `has no meaning for ${recipe.recipe}`,
      ...(hint === undefined ? {} : { hint }),
    });
  for (const other of DATA_FIELDS) {
    if (other !== field && recipe[other] !== undefined) refuse([other], `did you mean "${field}"?`);
  }
  if (!has_rollouts && recipe.objective !== undefined) refuse(["objective"]);
  for (const [at, key] of keysOfFields(recipe.recipe)) {
    const is_given = valueAt(recipe, at) !== undefined;
    if (is_given && isUnused(recipe.recipe, key)) refuse(at, 'did you mean "updates"?');
  }
  return findings;
}

/** The field that sets a key, or one above or below it; else the key in `params`. */
function placeOf(path: Path, places: readonly [Path, Path][]): Path {
  const above = places.findLast(([key]) => isPrefix(key, path));
  if (above) return [...above[1], ...path.slice(above[0].length)];
  const below = places.find(([key]) => path.length > 1 && isPrefix(path, key));
  // What the whole table lacks is a source of reward, which an objective names.
  if (CATALOGUE_KEYS.every(([table]) => path.length === 1 && table === path[0])) return ["objective"];
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
