/** The operator's catalogue: what a request may name by an id, and never give itself. */

import { isJsonObject } from "../../core/json.ts";
import type { Catalogue, CatalogueList, RequestUse } from "./catalogue_tables.ts";
import { matchesAnyPattern } from "../sections/mcp.ts";
import type { Finding } from "./issues.ts";
import { catalogueIds, joinedTables, operatorsKey, replacedIds } from "./request_keys.ts";
import { type Table, type TomlTree, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];

/** A configuration in which catalogue ids are replaced by what the operator declares for them. */
export interface AppliedCatalogue extends TomlTree {
  /** Ids without an entry. */
  unknown: Finding[];
  /** Values of the operator that the request would change. */
  declared: Finding[];
  /** Values beyond what the operator allows. */
  beyond: Finding[];
}

/**
 * Replaces the ids of entries by the entries' keys. Keys of the request join them as `CATALOGUE_TABLES` says, and never
 * widen what the operator declares.
 */
export function applyCatalogue({ tree, floats }: TomlTree, catalogue: Catalogue): AppliedCatalogue {
  const applied: AppliedCatalogue = {
    ...{ tree: structuredClone(tree), floats, unknown: [], declared: [], beyond: [] },
  };
  for (const { path, list } of catalogueIds(tree)) {
    const id = valueAt(tree, path);
    if (typeof id !== "string" || catalogue[list].some((entry) => entry.id === id)) continue;
    const message = "is no entry of this server's catalogue";
    applied.unknown.push({ path, code: "invalid_value", message });
  }
  const entryOf = (list: CatalogueList, id: unknown) => catalogue[list].find((entry) => entry.id === id);
  for (const { path, list } of replacedIds(tree)) {
    const entry = entryOf(list, valueAt(tree, path));
    const table = valueAt(applied.tree, path.slice(0, -1)) as Table;
    if (entry) table[path.at(-1)!] = declaredKeys(entry);
  }
  for (const { path, list, keys } of joinedTables(tree)) {
    const table = valueAt(applied.tree, path), entry = entryOf(list, valueAt(table, ["id"]));
    if (isJsonObject(table) && entry) join(applied, { path, keys, table, entry });
  }
  return applied;
}

/** An entry of the catalogue. */
type Entry = Catalogue[CatalogueList][number];

/** The keys of an entry, without its id and its description. */
function declaredKeys({ id: _, description: __, ...declared }: Entry): Table {
  return structuredClone(declared);
}

interface Joined {
  path: Path;
  keys: Readonly<Record<string, RequestUse>>;
  table: Table;
  entry: Entry;
}

/** Fills a request's table with the keys of its entry. */
function join(applied: AppliedCatalogue, { path, keys, table, entry }: Joined): void {
  const declared = declaredKeys(entry);
  const own: Table = { ...table };
  for (const key of Object.keys(table)) delete table[key];
  Object.assign(table, declared);
  delete own.id;
  for (const [key, value] of Object.entries(own)) {
    table[key] = isJsonObject(value) && isJsonObject(table[key]) ? { ...table[key], ...value } : value;
  }
  for (const [key, use] of Object.entries(keys)) {
    const parts = key.split("."), asked = valueAt(own, parts), given = valueAt(declared, parts);
    if (asked === undefined) continue;
    const at = [...path, ...parts];
    if (use === "same" && asked !== given) applied.declared.push(operatorsKey(at));
    if (use === "at_most") applied.beyond.push(...beyondLimit(at, asked, given));
    if (use === "within") applied.beyond.push(...beyondList(at, { asked, given, declared }));
    if (use === "added") table[key] = addedTo(given, asked);
  }
  // A name that is not given is the id, which the table no longer has.
  if (Object.hasOwn(keys, "name")) table.name ??= entry.id;
}

type Values = Record<"asked" | "given", unknown>;

function beyondLimit(path: Path, asked: unknown, most: unknown): Finding[] {
  if (typeof asked !== "number" || typeof most !== "number" || asked <= most) return [];
  const message = `must be at most ${most}, the operator's limit, not ${asked}`;
  return [{ path, code: "out_of_range", message }];
}

/** Names of tools that the entry does not allow; a pattern is allowed where the entry has it, or allows all. */
function beyondList(path: Path, { asked, given, declared }: Values & { declared: Table }): Finding[] {
  if (!Array.isArray(asked)) return [];
  const denied = Array.isArray(declared.denied_tools) ? declared.denied_tools : [];
  return asked.flatMap((name, i): Finding[] => {
    const is_allowed = !Array.isArray(given) || given.includes(name) ||
      !String(name).includes("*") && matchesAnyPattern(given, String(name));
    if (is_allowed && !matchesAnyPattern(denied, String(name))) return [];
    return [{ path: [...path, i], code: "invalid_value", message: "is no tool that the operator allows" }];
  });
}

function addedTo(given: unknown, asked: unknown): unknown {
  return Array.isArray(given) && Array.isArray(asked) ? [...new Set([...given, ...asked])] : asked;
}
