/** A TOML text as plain data. */

import { parse, TomlError } from "smol-toml";
import { locateKeys } from "./locate.ts";

/** The deepest nesting of tables, lists and dotted parts. */
export const MAX_TOML_DEPTH = 64;

/** The most tables, lists and values in a file. */
export const MAX_TOML_VALUES = 10_000;

/** The position, from 1, and the reason of a syntax error. */
export interface TomlSyntaxError {
  line: number;
  /** Only for errors from the parser. */
  column?: number;
  message: string;
}

/** A table of a configuration, from TOML or JSON. */
export type Table = Record<string, unknown>;

/** A parsed document. */
export interface TomlTree {
  /** Tables as objects without a prototype, integers as numbers, dates as `Date`. */
  tree: Table;
  /** JSON of the paths whose numbers were written as floats, such as `8.0`. */
  floats: ReadonlySet<string>;
}

const TOO_DEEP = `is nested more than ${MAX_TOML_DEPTH} levels deep`;

/** Parses TOML. A text that is not TOML or exceeds the limits gives the position of its first error. */
export function parseToml(text: string): TomlTree | TomlSyntaxError {
  let raw: unknown;
  try {
    raw = parse(text, { integersAsBigInt: true, maxDepth: MAX_TOML_DEPTH });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const { line, column } = error;
    const reason = error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, "");
    const message = reason.includes("excessively nested") ? TOO_DEEP : `is not TOML: ${reason}`;
    return { line, column, message };
  }
  const beyond = beyondLimits(raw);
  if (beyond) return { line: locateKeys(text).lineOf(beyond.path), message: beyond.message };
  const floats = new Set<string>();
  return { tree: plain(raw, [], floats) as Table, floats };
}

/** The first value beyond the limits. Not recursive, because a deep value would overflow the stack. */
function beyondLimits(root: unknown): { path: string[]; message: string } | null {
  const waiting: { value: unknown; path: string[] }[] = [{ value: root, path: [] }];
  let seen = 1;
  while (waiting.length > 0) {
    const { value, path } = waiting.pop()!;
    if (value === null || typeof value !== "object" || value instanceof Date) continue;
    if (path.length >= MAX_TOML_DEPTH) return { path, message: TOO_DEEP };
    for (const [key, item] of Object.entries(value)) {
      if (++seen > MAX_TOML_VALUES) {
        return { path: [...path, key], message: `the file has more than ${MAX_TOML_VALUES} values` };
      }
      waiting.push({ value: item, path: [...path, key] });
    }
  }
  return null;
}

function plain(value: unknown, path: readonly (string | number)[], floats: Set<string>): unknown {
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number") floats.add(JSON.stringify(path));
  if (Array.isArray(value)) return value.map((item, i) => plain(item, [...path, i], floats));
  if (value === null || typeof value !== "object" || value instanceof Date) return value;
  const table: Table = Object.create(null);
  for (const [key, item] of Object.entries(value)) table[key] = plain(item, [...path, key], floats);
  return table;
}

/** The value at a path of own properties, or undefined. */
export function valueAt(tree: unknown, path: readonly PropertyKey[]): unknown {
  let value = tree;
  for (const part of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = (value as Record<PropertyKey, unknown>)[part];
  }
  return value;
}

/** Whether a path equals another one or is a table that contains it. List indices may be numbers or text. */
export function isPrefix(prefix: readonly PropertyKey[], path: readonly PropertyKey[]): boolean {
  return prefix.length <= path.length && prefix.every((part, i) => String(part) === String(path[i]));
}

/** Sets the value of a dotted key, with the tables around it. */
export function setKey(tree: Table, key: string, value: unknown): void {
  const parts = key.split("."), last = parts.pop()!;
  let table = tree;
  for (const part of parts) table = (table[part] ??= {}) as Table;
  table[last] = value;
}
