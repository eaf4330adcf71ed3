/** A TOML text as plain data. */

import { parse, TomlError } from "smol-toml";

/** Position and reason of a syntax error, from 1. */
export interface TomlSyntaxError {
  line: number;
  column: number;
  message: string;
}

export interface TomlTree {
  /** Tables as objects without a prototype, integers as numbers, dates as `Date`. */
  tree: Record<string, unknown>;
  /** JSON of the paths whose numbers were written as floats, such as `8.0`. */
  floats: ReadonlySet<string>;
}

/** Parses TOML; a text that is none gives the first place that does not parse. */
export function parseToml(text: string): TomlTree | TomlSyntaxError {
  let raw: unknown;
  try {
    raw = parse(text, { integersAsBigInt: true });
  } catch (error) {
    if (!(error instanceof TomlError)) throw error;
    const reason = error.message.split("\n")[0]!.replace(/^Invalid TOML document: /, "");
    return { line: error.line, column: error.column, message: `is not TOML: ${reason}` };
  }
  const floats = new Set<string>();
  return { tree: plain(raw, [], floats) as Record<string, unknown>, floats };
}

function plain(value: unknown, path: readonly (string | number)[], floats: Set<string>): unknown {
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number") floats.add(JSON.stringify(path));
  if (Array.isArray(value)) return value.map((item, i) => plain(item, [...path, i], floats));
  if (value === null || typeof value !== "object" || value instanceof Date) return value;
  const table: Record<string, unknown> = Object.create(null);
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
