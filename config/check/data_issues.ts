/** Schema errors of data from a program or a file, as one short sentence for each field. */

import type { z } from "zod";
import { isJsonObject } from "../../core/json.ts";
import { EXPECTED, showValue } from "./issues.ts";
import { valueAt } from "../text/toml_tree.ts";

type Issue = z.core.$ZodIssue;

/** The words of a configuration are those of TOML. */
const JSON_WORDS: typeof EXPECTED = { ...EXPECTED, object: "an object", record: "an object" };

function shown(found: unknown): string {
  if (found === null) return "null";
  return isJsonObject(found) ? JSON_WORDS.object! : showValue(found);
}

/** `<field>: must be <expected>, not <found>`. An issue of the entire value names no field. */
export function describeIssue(issue: Issue, value: unknown): string {
  const inner = furthest(issue);
  if (inner) return describeIssue(inner, value);
  const path = issue.path as (string | number)[];
  const field = path.length > 0 ? `${path.join(".")}: ` : "";
  return field + reasonOf(issue, valueAt(value, path));
}

/** The issue of the union member that matched deepest; null when no member matched below the top level. */
function furthest(issue: Issue): Issue | null {
  if (issue.code !== "invalid_union") return null;
  const firsts = issue.errors.flatMap(([first]) => first ? [first] : []);
  const [deepest] = firsts.toSorted((a, b) => b.path.length - a.path.length);
  if (!deepest || deepest.path.length === 0) return null;
  return { ...deepest, path: [...issue.path, ...deepest.path] };
}

function reasonOf(issue: Issue, found: unknown): string {
  if (issue.code === "unrecognized_keys") {
    const names = issue.keys.map((key) => JSON.stringify(key)).join(", ");
    return `${issue.keys.length === 1 ? "unknown field" : "unknown fields"} ${names}`;
  }
  if (issue.code === "invalid_key") return issue.issues[0]?.message ?? issue.message;
  // These issues already have a message in the schema.
  if (issue.code === "custom") return issue.message;
  const expected = expectedText(issue);
  if (expected === null) return issue.message;
  if (found === undefined) return `is missing: ${expected}`;
  // A list of the wrong length.
  if (issue.code.startsWith("too_") && Array.isArray(found)) {
    return `must be ${expected}, not ${found.length === 0 ? "an empty one" : `one of ${found.length}`}`;
  }
  return `must be ${expected}, not ${shown(found)}`;
}

/** The expected value in words; null for issues with a message of their own. */
function expectedText(issue: Issue): string | null {
  switch (issue.code) {
    case "invalid_type":
      return JSON_WORDS[issue.expected] ?? issue.expected;
    case "invalid_value":
      return issue.values.map((choice) => JSON.stringify(choice)).join(" or ");
    case "too_small":
    case "too_big":
      return boundText(issue);
    case "invalid_union":
      return unionText(issue);
    default:
      return null;
  }
}

function boundText(issue: Extract<Issue, { code: "too_small" | "too_big" }>): string {
  const bound = issue.code === "too_small"
    ? `${issue.inclusive ? "at least" : "above"} ${issue.minimum}`
    : `${issue.inclusive ? "at most" : "below"} ${issue.maximum}`;
  const is_one = (issue.code === "too_small" ? issue.minimum : issue.maximum) === 1;
  if (issue.origin === "string") return `a string of ${bound} ${is_one ? "character" : "characters"}`;
  return issue.origin === "array" ? `a list of ${bound} ${is_one ? "entry" : "entries"}` : bound;
}

function unionText(issue: Extract<Issue, { code: "invalid_union" }>): string | null {
  const choices = issue.errors.flatMap(([first]) => {
    const text = first && first.path.length === 0 ? expectedText(first) : null;
    return text === null ? [] : [text];
  });
  if (choices.length > 0) return [...new Set(choices)].join(" or ");
  const { options } = issue as { options?: readonly unknown[] };
  return options?.length ? options.map((option) => JSON.stringify(option)).join(" or ") : null;
}
