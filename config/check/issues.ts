/** Schema errors of a configuration in words for its author. */

import type { z } from "zod";
import { type ConfigKey, describeKeys, namesAt } from "../describe.ts";
import { editDistance, nearestName } from "../text/nearest.ts";
import type { ConfigProblemCode } from "../text/problems.ts";
import { valueAt } from "../text/toml_tree.ts";

type Issue = z.core.$ZodIssue;

/** A problem without its place. */
export interface Finding {
  path: (string | number)[];
  code: ConfigProblemCode;
  message: string;
  hint?: string;
}

/** The names of types in messages. */
export const EXPECTED: Readonly<Record<string, string>> = {
  string: "a string",
  number: "a number",
  int: "an integer",
  boolean: "true or false",
  array: "a list",
  object: "a table",
  record: "a table",
};

const MAX_SHOWN_CHARS = 40;

/** A value as messages show it. */
export function showValue(value: unknown): string {
  if (value instanceof Date) return "a date";
  if (Array.isArray(value)) return "a list";
  if (value === null) return "nothing";
  if (typeof value === "object") return "a table";
  // A long text is not made longer first.
  const text = typeof value === "string" ? JSON.stringify(value.slice(0, MAX_SHOWN_CHARS)) : String(value);
  if (text.length <= MAX_SHOWN_CHARS) return text;
  // Not half of a surrogate pair.
  return `${text.slice(0, MAX_SHOWN_CHARS).replace(/[\ud800-\udbff]$/, "")}…`;
}

function pattern(path: readonly (string | number)[]): string {
  return path.reduce<string>(
    (key, part) => typeof part === "number" ? `${key}[]` : key ? `${key}.${part}` : part,
    "",
  );
}

/** How many more keys of a tree may be compared with all known ones: each takes the time of some hundred comparisons. */
export interface HintBudget {
  left: number;
}

/** Converts one schema issue to findings. An issue about unknown keys becomes several. */
export function findingsOf(issue: Issue, tree: unknown, hints: HintBudget): Finding[] {
  const path = issue.path as (string | number)[];
  const value = valueAt(tree, path);
  const finding = (message: string, code: ConfigProblemCode = "invalid_value", hint?: string | null) => [
    { path, code, message, ...(hint ? { hint } : {}) },
  ];
  if (issue.code === "unrecognized_keys") {
    return issue.keys.map((key) => unknownKey([...path, key], value, hints.left-- > 0));
  }
  if (value === undefined) return missingKeys(path).map((key) => missing(key, path));
  switch (issue.code) {
    case "invalid_type":
      return finding(
        `must be ${expectedText(issue.expected, path)}, not ${showValue(value)}`,
        "invalid_value",
        headerHint(path, issue.expected, value),
      );
    case "invalid_value":
      return finding(choiceText(issue.values, value), "invalid_value", choiceHint(issue.values, value));
    case "too_small":
    case "too_big":
      return finding(sizeText(issue, value), typeof value === "number" ? "out_of_range" : "invalid_value");
    case "invalid_union":
      return unionFindings(issue, tree, hints);
    case "invalid_format":
      return finding(`${issue.message}, not ${showValue(value)}`);
    default:
      return finding(issue.message);
  }
}

/** A missing table becomes a finding for each of its required keys. */
function missingKeys(path: readonly (string | number)[]): string[] {
  const key = path.join(".");
  const required = describeKeys().filter(({ section, required }) => required && section === key);
  return required.length > 0 ? required.map((found) => found.key) : [key];
}

function missing(key: string, path: readonly (string | number)[]): Finding {
  const at = key === path.join(".") ? [...path] : key.split(".");
  const found = keyAt(at);
  const message = found ? `is missing (${found.description.replace(/\.$/, "")})` : "is missing";
  return { path: at, code: "missing_field", message };
}

function keyAt(path: readonly (string | number)[]): ConfigKey | undefined {
  const key = pattern(path);
  return describeKeys().find((candidate) => candidate.key === key);
}

/** For an integer key, zod first reports that it expects a number. */
function expectedText(expected: string, path: readonly (string | number)[]): string {
  const is_integer = expected === "number" && keyAt(path)?.type.startsWith("integer");
  return EXPECTED[is_integer ? "int" : expected] ?? expected;
}

/** The headers for one environment and for many servers are easily mixed up. */
function headerHint(path: readonly (string | number)[], expected: string, value: unknown): string | null {
  const key = path.join(".");
  if (expected === "object" && Array.isArray(value)) {
    return `at most one may be declared: write [${key}]`;
  }
  if (expected === "array" && value !== null && typeof value === "object" && !(value instanceof Date)) {
    return `write [[${key}]]`;
  }
  return null;
}

/** What a value must be, of a list of choices. */
function choiceText(values: readonly unknown[], value: unknown): string {
  return `must be ${values.map((choice) => JSON.stringify(choice)).join(" or ")}, not ${showValue(value)}`;
}

/** A hint for a text that is nearly one of the choices; null when it is not. */
export function choiceHint(values: readonly unknown[], value: unknown): string | null {
  const choices = values.filter((choice) => typeof choice === "string");
  const nearest = typeof value === "string" ? nearestName(value, choices) : null;
  return nearest === null ? null : `did you mean "${nearest}"?`;
}

function sizeText(issue: Extract<Issue, { code: "too_small" | "too_big" }>, value: unknown): string {
  if (typeof value === "string") return "must not be empty";
  if (Array.isArray(value)) return "must have at least one entry";
  const bound = issue.code === "too_small"
    ? `${issue.inclusive ? "at least" : "above"} ${issue.minimum}`
    : `${issue.inclusive ? "at most" : "below"} ${issue.maximum}`;
  return `must be ${bound}, not ${showValue(value)}`;
}

/** The findings of the first union member that has the value's type. */
function unionFindings(
  issue: Extract<Issue, { code: "invalid_union" }>,
  tree: unknown,
  hints: HintBudget,
): Finding[] {
  const path = issue.path as (string | number)[];
  const isMeant = ({ path, code }: Issue) =>
    path.length > 0 || code === "unrecognized_keys" || code === "invalid_format";
  const deepest = issue.errors.find((branch) => branch.some(isMeant));
  if (deepest) {
    return deepest.flatMap((inner) => findingsOf({ ...inner, path: [...path, ...inner.path] }, tree, hints));
  }
  const key = keyAt(path);
  const type = key ? key.type : "of another type";
  return [{ path, code: "invalid_value", message: `must be ${type}, not ${showValue(valueAt(tree, path))}` }];
}

function unknownKey(path: (string | number)[], table: unknown, has_hint: boolean): Finding {
  const is_table = typeof valueAt(table, [path.at(-1)!]) === "object";
  const message = is_table && path.length === 1 ? "is no known section" : "is no known key";
  const hint = has_hint ? nearestKey(path) : null;
  return { path, code: "unknown_field", message, ...(hint ? { hint } : {}) };
}

/** A similar name in the same table, else the same or a similar name in another section. */
function nearestKey(path: readonly (string | number)[]): string | null {
  const name = String(path.at(-1));
  const parent = path.slice(0, -1);
  const near = nearestName(name, namesAt(parent) ?? []);
  if (near !== null) return `did you mean "${[...parent, near].join(".")}"?`;
  const others = describeKeys().map((key) => key.key);
  const last = (key: string) => key.slice(key.lastIndexOf(".") + 1);
  const close = nearestName(name, others.map(last));
  // In other sections, short names match too easily: `dir` is two edits from `lr`.
  if (close === null || 2 * editDistance(name, close, name.length) >= name.length) return null;
  const same = others.filter((key) => last(key) === close);
  return `did you mean ${same.map((key) => `"${key}"`).join(" or ")}?`;
}
