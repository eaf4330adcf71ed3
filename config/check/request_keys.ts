/** Keys of a run configuration that a request may not hold, or that name files of the server. */

import { configJsonSchema, describeKeys, type JsonSchema } from "../describe.ts";
import type { Finding } from "./issues.ts";
import { isPrefix, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];

/**
 * How a request's key joins that of the catalogue's entry. `id` names the entry; `own`: the request's value counts;
 * `same`: only the entry's value may be repeated; `at_most`: a number up to the entry's; `within`: a list of what the
 * entry does not exclude; `added`: a list that is joined to the entry's.
 */
export type RequestUse = "id" | "own" | "same" | "at_most" | "within" | "added";

/** The lists of the server's configuration that a request names entries of. */
export type CatalogueList = "rewards" | "judges" | "mcp_servers" | "environments";

/** A table that stands for an entry of the catalogue. */
export interface CatalogueTable {
  /** The list with its entries. */
  list: CatalogueList;
  /** Every key that a request may set, below the table. All other keys are the operator's, new ones too. */
  keys: Readonly<Record<string, RequestUse>>;
}

/** By dotted key as `describeKeys` names it. */
export const CATALOGUE_TABLES: Readonly<Record<string, CatalogueTable>> = {
  "agent.judge": {
    list: "judges",
    keys: {
      id: "id",
      type: "same",
      rubric: "own",
      permute: "own",
      max_chars: "at_most",
      timeout_secs: "at_most",
      max_retries: "at_most",
    },
  },
  "agent.environment": {
    list: "environments",
    keys: {
      id: "id",
      "limits.cpus": "at_most",
      "limits.memory_mb": "at_most",
      "limits.exec_timeout_secs": "at_most",
      "pool.max_live": "at_most",
      "pool.reuse": "same",
    },
  },
  "agent.mcp_servers[]": {
    list: "mcp_servers",
    keys: { id: "id", name: "own", required: "own", allowed_tools: "within", denied_tools: "added" },
  },
};

/** Keys and sections that no request may hold, with or without an id. */
const NEVER = ["agent.mcp_config", "agent.scenario_generation", "agent.collect_api"];

/** The key that is the id of a reward. */
const REWARD: Path = ["agent", "reward"];

/** The pattern of a key: `*` is any index of a list, and what any name may follow counts as one key. */
const patternOf = (key: string) => key.replace(/\.<name>.*$/, "").replaceAll("[]", ".*");

/** Keys that only the operator declares, by dotted pattern. */
export const OPERATORS_KEYS: readonly string[] = [
  ...new Set(
    describeKeys().flatMap(({ key }) => {
      if (NEVER.some((never) => key === never || key.startsWith(`${never}.`))) return [];
      const [table, spec] = Object.entries(CATALOGUE_TABLES).find(([name]) => key.startsWith(`${name}.`)) ??
        [];
      const is_operators = spec && !Object.hasOwn(spec.keys, key.slice(table!.length + 1));
      return is_operators ? [patternOf(key)] : [];
    }),
  ),
  ...NEVER,
];

/** The same, by their parts. */
const OPERATORS_PATHS = OPERATORS_KEYS.map((pattern) => pattern.split("."));

const MESSAGE = "is for the operator alone: declare it in the server's catalogue, and give its id";

/** A key that holds a path. */
export interface PathKey {
  path: Path;
  value: string;
}

/** Every use of a key that only the operator declares. Below such a key nothing else is looked at. */
export function operatorsKeys(tree: unknown): Finding[] {
  const found = OPERATORS_PATHS.flatMap((parts) => pathsOf(tree, parts));
  // Without an id there is no entry whose value it could repeat.
  for (const { path, spec } of catalogueTables(tree)) {
    if (valueAt(tree, [...path, "id"]) !== undefined) continue;
    const repeated = Object.keys(spec.keys).filter((key) => spec.keys[key] === "same");
    found.push(
      ...repeated.map((key) => [...path, ...key.split(".")]).filter((at) => valueAt(tree, at) !== undefined),
    );
  }
  if (typeof valueAt(tree, REWARD) === "object") found.push(REWARD);
  return found.map(operatorsKey);
}

/** The finding about a key of the operator. */
export function operatorsKey(path: Path): Finding {
  return { path, code: "invalid_value", message: MESSAGE };
}

/** Whether a path is that of a key that only the operator declares, or inside one. */
export function isOperatorsKey(path: Path): boolean {
  return OPERATORS_PATHS.some((parts) =>
    parts.length <= path.length && parts.every((part, i) => part === "*" || part === String(path[i]))
  );
}

/** The tables of a tree that stand for entries of the catalogue. */
export function catalogueTables(tree: unknown): { path: Path; spec: CatalogueTable }[] {
  return Object.entries(CATALOGUE_TABLES).flatMap(([key, spec]) =>
    pathsOf(tree, patternOf(key).split(".")).map((path) => ({ path, spec }))
  );
}

/** The ids of catalogue entries in a tree. */
export function catalogueIds(tree: unknown): { path: Path; list: CatalogueList }[] {
  const ids = catalogueTables(tree).map(({ path, spec }) => ({ path: [...path, "id"], list: spec.list }));
  return [{ path: REWARD, list: "rewards" as const }, ...ids]
    .filter(({ path }) => valueAt(tree, path) !== undefined);
}

/** Keys that a catalogue entry may set, where a tree names one: what they hold is not known from the tree. */
export function keysOfEntries(tree: unknown): Path[] {
  return catalogueTables(tree).filter(({ path }) => valueAt(tree, [...path, "id"]) !== undefined)
    .flatMap(({ path }) =>
      OPERATORS_PATHS.filter((parts) =>
        parts.length > path.length && path.every((part, i) => parts[i] === "*" || parts[i] === part)
      ).map((parts) => [...path, ...parts.slice(path.length)])
    );
}

/** A copy of a tree without the values at some paths, and without the tables and lists that are empty then. */
export function withoutPaths(tree: Record<string, unknown>, paths: readonly Path[]): Record<string, unknown> {
  const copy = structuredClone(tree);
  for (const path of paths) {
    for (let length = path.length; length > 0; length--) {
      const table = valueAt(copy, path.slice(0, length - 1)) as Record<string | number, unknown> | undefined;
      const key = path[length - 1]!;
      if (!table || !Object.hasOwn(table, key)) break;
      // Entries of a list keep their places, for the places of other findings.
      if (Array.isArray(table) && table.length > 1) break;
      delete table[key];
      if (Object.keys(table).length > 0) break;
    }
  }
  return copy;
}

/** A copy of a tree without what a catalogue would say. */
export function withoutCatalogue(tree: Record<string, unknown>): Record<string, unknown> {
  return withoutPaths(tree, [REWARD, ["agent", "judge"], ["agent", "mcp_servers"], ["agent", "environment"]]);
}

/** The uses of keys that name a file to read (`input`) or a place to write (`output`). */
export function pathKeys(tree: unknown, kind: "input" | "output"): PathKey[] {
  const operators = operatorsKeys(tree);
  return describeKeys().flatMap(({ key, path: found }) => {
    const path = key.split("."), value = valueAt(tree, path);
    if (found !== kind || typeof value !== "string") return [];
    return operators.some((finding) => isPrefix(finding.path, path)) ? [] : [{ path, value }];
  });
}

/** The paths that exist in a tree and match a pattern. */
function pathsOf(tree: unknown, pattern: readonly string[]): Path[] {
  let found: Path[] = [[]];
  for (const part of pattern) {
    found = found.flatMap((path) => {
      const value = valueAt(tree, path);
      if (part === "*") return Array.isArray(value) ? value.map((_, i) => [...path, i]) : [];
      return valueAt(value, [part]) === undefined ? [] : [[...path, part]];
    });
  }
  return found;
}

/** The configuration that a request may hold, as JSON Schema 2020-12: without the operator's keys and output paths. */
export function requestJsonSchema(): JsonSchema {
  const schema = configJsonSchema();
  const outputs = describeKeys().filter(({ path }) => path === "output").map(({ key }) => key);
  for (const key of [...OPERATORS_KEYS, ...outputs]) removeProperty(schema, key.split("."));
  keepIds(schema.properties!.agent!.properties!.reward!);
  return schema;
}

/** Of the forms of a value only the id: the table is the operator's. */
function keepIds(schema: JsonSchema): void {
  const { anyOf, ...rest } = schema as JsonSchema & { anyOf: JsonSchema[] };
  const id = anyOf.find(({ type }) => type === "string");
  delete schema.anyOf;
  Object.assign(schema, id, rest);
}

function removeProperty(schema: JsonSchema | undefined, [part, ...rest]: readonly string[]): void {
  if (!schema || part === undefined) return;
  if (rest.length > 0) return removeProperty(part === "*" ? schema.items : schema.properties?.[part], rest);
  delete schema.properties?.[part];
  if (schema.required) schema.required = schema.required.filter((name) => name !== part);
}
