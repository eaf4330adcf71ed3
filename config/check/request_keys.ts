/** Keys of a run configuration that a request may not hold, or that name files of the server. */

import { configJsonSchema, describeKeys, type JsonSchemaTree } from "../describe.ts";
import {
  CATALOGUE_KEYS,
  CATALOGUE_LISTS,
  CATALOGUE_TABLES,
  type CatalogueList,
  type CatalogueTable,
  type RequestUse,
} from "./catalogue_tables.ts";
import type { Finding } from "./issues.ts";
import { isPrefix, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];

/** The tables of requests that are filled in from the catalogue, by dotted key as `describeKeys` names it. */
const JOINED = CATALOGUE_LISTS.flatMap((list) => {
  const { field, is_list, keys }: CatalogueTable = CATALOGUE_TABLES[list];
  return keys ? [{ list, keys, key: `agent.${field}${is_list ? "[]" : ""}` }] : [];
});

/** The keys of requests that are an id in place of a table. */
const REPLACED = CATALOGUE_LISTS.flatMap((list) => {
  const { field, keys }: CatalogueTable = CATALOGUE_TABLES[list];
  return keys ? [] : [{ list, path: ["agent", field] }];
});

/** A table of a tree that is filled in from the catalogue. */
export interface JoinedTable {
  path: Path;
  list: CatalogueList;
  /** Every key that a request may set, below the table. */
  keys: Readonly<Record<string, RequestUse>>;
}

/** Keys and sections that no request may hold, with or without an id. */
const NEVER = ["agent.mcp_config", "agent.scenario_generation", "agent.collect_api"];

/** The pattern of a key: `*` is any index of a list, and what any name may follow counts as one key. */
const patternOf = (key: string) => key.replace(/\.<name>.*$/, "").replaceAll("[]", ".*");

/** Keys that only the operator declares, by dotted pattern. */
export const OPERATORS_KEYS: readonly string[] = [
  ...new Set(
    describeKeys().flatMap(({ key }) => {
      if (NEVER.some((never) => key === never || key.startsWith(`${never}.`))) return [];
      const table = JOINED.find((table) => key.startsWith(`${table.key}.`));
      const is_operators = table && !Object.hasOwn(table.keys, key.slice(table.key.length + 1));
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
  for (const { path, keys } of joinedTables(tree)) {
    if (valueAt(tree, [...path, "id"]) !== undefined) continue;
    const repeated = Object.keys(keys).filter((key) => keys[key] === "same");
    found.push(
      ...repeated.map((key) => [...path, ...key.split(".")]).filter((at) => valueAt(tree, at) !== undefined),
    );
  }
  found.push(...REPLACED.map(({ path }) => path).filter((path) => typeof valueAt(tree, path) === "object"));
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

/** The tables of a tree that are filled in from the catalogue where they have an id. */
export function joinedTables(tree: unknown): JoinedTable[] {
  return JOINED.flatMap(({ key, list, keys }) =>
    pathsOf(tree, patternOf(key).split(".")).map((path) => ({ path, list, keys }))
  );
}

/** The ids of a tree that stand for tables, and the list of each. */
export function replacedIds(tree: unknown): { path: Path; list: CatalogueList }[] {
  return REPLACED.filter(({ path }) => valueAt(tree, path) !== undefined);
}

/** The ids of catalogue entries in a tree. */
export function catalogueIds(tree: unknown): { path: Path; list: CatalogueList }[] {
  const joined = joinedTables(tree).map(({ path, list }) => ({ path: [...path, "id"], list }));
  return [...replacedIds(tree), ...joined.filter(({ path }) => valueAt(tree, path) !== undefined)];
}

/** Keys that a catalogue entry may set, where a tree names one: what they hold is not known from the tree. */
export function keysOfEntries(tree: unknown): Path[] {
  return joinedTables(tree).filter(({ path }) => valueAt(tree, [...path, "id"]) !== undefined)
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
  return withoutPaths(tree, CATALOGUE_KEYS);
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
export function requestJsonSchema(): JsonSchemaTree {
  const schema = configJsonSchema();
  const outputs = describeKeys().filter(({ path }) => path === "output").map(({ key }) => key);
  for (const key of [...OPERATORS_KEYS, ...outputs]) removeProperty(schema, key.split("."));
  for (const { path } of REPLACED) keepIds(propertyAt(schema, path));
  return schema;
}

/** Keeps only the id form of a value; the table form is the operator's. */
function keepIds(schema: JsonSchemaTree): void {
  const { anyOf, ...rest } = schema as JsonSchemaTree & { anyOf: JsonSchemaTree[] };
  const id = anyOf.find(({ type }) => type === "string");
  delete schema.anyOf;
  Object.assign(schema, id, rest);
}

function propertyAt(schema: JsonSchemaTree, path: readonly string[]): JsonSchemaTree {
  return path.reduce((table, name) => table.properties![name]!, schema);
}

function removeProperty(schema: JsonSchemaTree | undefined, [part, ...rest]: readonly string[]): void {
  if (!schema || part === undefined) return;
  if (rest.length > 0) return removeProperty(part === "*" ? schema.items : schema.properties?.[part], rest);
  delete schema.properties?.[part];
  if (schema.required) schema.required = schema.required.filter((name) => name !== part);
}
