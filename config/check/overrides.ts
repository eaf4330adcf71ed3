/** `key=value` on the command line: values that replace those of the file. */

import { resolve } from "node:path";
import { z } from "zod";
import { describeKeys, schemaAt, tableWithin, unwrap } from "../describe.ts";
import type { KeyLines } from "../text/locate.ts";
import type { ConfigProblem } from "../text/problems.ts";
import { isPrefix, MAX_TOML_DEPTH, parseToml, type TomlTree, valueAt } from "../text/toml_tree.ts";

type Path = readonly (string | number)[];

/** A value that replaces one of the file. */
export interface Override {
  /** The override as written, such as `training.lr=1e-4`. */
  text: string;
  path: string[];
  value: unknown;
  /** As in {@link TomlTree}. */
  floats: ReadonlySet<string>;
}

type Problem = Pick<ConfigProblem, "code" | "message"> & { hint?: string };

const KEY = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/;

/**
 * Reads overrides. A value is a TOML value; quotes may be omitted for string keys. Paths resolve against the current
 * folder. The schema checks later that a key exists and accepts its value.
 *
 * @param file The configuration that the overrides apply to.
 */
export function readOverrides(
  texts: readonly string[],
  file: string,
): { overrides: Override[]; problems: ConfigProblem[] } {
  const overrides: Override[] = [], problems: ConfigProblem[] = [];
  for (const text of texts) {
    const read = readOverride(text);
    const twice = "path" in read &&
      overrides.find(({ path }) => isPrefix(path, read.path) || isPrefix(read.path, path));
    const problem: Problem | null = "code" in read ? read : twice
      ? {
        code: "invalid_value",
        message: `says another value than ${shownOverride(twice.text)}; give one of them`,
      }
      : null;
    if (problem) {
      problems.push({ file, line: 0, override: shownOverride(text), key: keyOf(text), ...problem });
    } else overrides.push(read as Override);
  }
  return { overrides, problems };
}

/** An override in messages: without the user and password of an address. */
export function shownOverride(text: string): string {
  return text.replace(/\/\/[^/@\s]*@/g, "//…@");
}

const keyOf = (text: string) => text.split("=", 1)[0]!.trim();

function readOverride(text: string): Override | Problem {
  const key = keyOf(text), written = text.slice(text.indexOf("=") + 1).trim();
  if (!text.includes("=") || !KEY.test(key)) {
    return { code: "syntax", message: "is no override: write key=value, such as training.lr=1e-4" };
  }
  const path = key.split(".");
  if (path.length > MAX_TOML_DEPTH) {
    return { code: "syntax", message: `has a key of more than ${MAX_TOML_DEPTH} parts` };
  }
  const refused = refuseKey(path);
  if (refused) return refused;
  const schema = schemaAt(path);
  const read = readValue(written, schema ? textKind(schema) : "some");
  if ("message" in read) return { code: "syntax", message: read.message };
  const { tree, floats } = read;
  const value = describeKeys().some((found) => found.key === key && found.path) && tree.v
    ? resolve(String(tree.v))
    : tree.v;
  return {
    text,
    path,
    value,
    floats: new Set([...floats].map((at) => JSON.stringify([...path, ...JSON.parse(at).slice(1)]))),
  };
}

/** Refuses a key that does not hold a single value. */
function refuseKey(path: string[]): Problem | null {
  const key = path.join(".");
  for (let length = 1; length <= path.length; length++) {
    const schema = schemaAt(path.slice(0, length)), name = path.slice(0, length).join(".");
    if (!schema) break;
    const is_list = unwrap(schema).schema instanceof z.ZodArray;
    if (is_list && tableWithin(unwrap(schema).schema)) {
      const message = `[[${name}]] is a list of tables, which cannot be changed here; change it in the file`;
      return { code: "invalid_value", message };
    }
    if (is_list && length < path.length) {
      return {
        code: "invalid_value",
        message: `an entry cannot be changed alone; give all of ${name}`,
      };
    }
    if (length === path.length && tableWithin(unwrap(schema).schema)) {
      return { code: "invalid_value", message: `[${key}] is a table; give its keys, one at a time` };
    }
    if (length < path.length && isScalar(unwrap(schema).schema)) {
      return { code: "invalid_value", message: `${name} holds a value, so it has no key below it` };
    }
  }
  const same = describeKeys().filter((known) => known.key.endsWith(`.${key}`)).map((known) =>
    `"${known.key}"`
  );
  if (path.length > 1 || same.length === 0) return null;
  return { code: "unknown_field", message: "is no known key", hint: `did you mean ${same.join(" or ")}?` };
}

/** Whether no form of a key has keys of its own. */
function isScalar(schema: z.ZodType): boolean {
  if (schema instanceof z.ZodUnion) return schema.options.every((form) => isScalar(form as z.ZodType));
  return [z.ZodString, z.ZodNumber, z.ZodBoolean, z.ZodEnum, z.ZodLiteral, z.ZodArray].some((kind) =>
    schema instanceof kind
  );
}

/** Whether a key accepts only text, text among other values, or no text. */
function textKind(schema: z.ZodType): "only" | "some" | "none" {
  const { schema: inner } = unwrap(schema);
  if (inner instanceof z.ZodString || inner instanceof z.ZodEnum) return "only";
  if (inner instanceof z.ZodNumber || inner instanceof z.ZodBoolean || inner instanceof z.ZodArray) {
    return "none";
  }
  return "some";
}

function readValue(written: string, kind: ReturnType<typeof textKind>): TomlTree | { message: string } {
  const literal = { tree: { v: written }, floats: new Set<string>() };
  const is_quoted = /^["']/.test(written);
  if (kind === "only" && !is_quoted) return literal;
  const toml = parseToml(`v = ${written}`);
  if ("message" in toml) {
    // A value that looks like more than a bare word gets the parser's reason.
    return is_quoted || /^[[{]/.test(written) ? { message: toml.message } : literal;
  }
  return Object.keys(toml.tree).length === 1 ? toml : { message: "is more than one value" };
}

/** Applies overrides to a tree in place. */
export function applyOverrides({ tree, floats }: TomlTree, overrides: readonly Override[]): TomlTree {
  const kept = new Set(floats);
  for (const { path, value, floats: own } of overrides) {
    const parents = path.slice(0, -1);
    let table = tree;
    for (const part of parents) {
      const next = valueAt(table, [part]) ?? Object.create(null);
      // The schema refuses a value of the file that should be a table.
      if (typeof next !== "object" || next === null || Array.isArray(next)) break;
      table = table[part] = next as Record<string, unknown>;
    }
    if (valueAt(tree, parents) !== table) continue;
    table[path.at(-1)!] = value;
    for (const at of kept) if (isPrefix(path, JSON.parse(at))) kept.delete(at);
    for (const at of own) kept.add(at);
  }
  return { tree, floats: kept };
}

/** The override that caused a finding; null when the file did. */
export function overrideAt(path: Path, overrides: readonly Override[], lines: KeyLines): Override | null {
  const around = overrides.find((override) => isPrefix(override.path, path));
  if (around) return around;
  // A section that exists only because of an override has no line in the file.
  const in_file = lines.depthOf(path);
  return overrides.find((override) => shared(override.path, path) > in_file) ?? null;
}

function shared(a: Path, b: Path): number {
  let length = 0;
  while (length < Math.min(a.length, b.length) && String(a[length]) === String(b[length])) length++;
  return length;
}
