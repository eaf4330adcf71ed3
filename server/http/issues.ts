/** Converts schema errors in a request to entries of a problem document. */

import { z } from "zod";
import { unwrap } from "../../config/describe.ts";
import { nearestName } from "../../config/text/nearest.ts";
import { MAX_LISTED_PROBLEMS, MAX_PROBLEM_CHARS } from "../../config/text/problems.ts";
import type { ProblemError } from "./problems.ts";

type Path = readonly PropertyKey[];

/** A JSON pointer; the empty path is the entire value. A name that is too long for a problem is cut. */
export function pointerOf(path: Path): string {
  return path.map((part) =>
    `/${String(part).slice(0, MAX_PROBLEM_CHARS).replaceAll("~", "~0").replaceAll("/", "~1")}`
  ).join("");
}

/** The names of the object at `path` of a schema; empty when any name is allowed or there is no object. */
function namesAt(schema: z.ZodType, path: Path): string[] {
  let inner = unwrap(schema).schema;
  for (const part of path) {
    if (inner instanceof z.ZodArray) inner = unwrap(inner.element as z.ZodType).schema;
    else if (inner instanceof z.ZodRecord) inner = unwrap(inner.valueType as z.ZodType).schema;
    else if (inner instanceof z.ZodObject && Object.hasOwn(inner.shape, part)) {
      inner = unwrap(inner.shape[String(part)] as z.ZodType).schema;
    } else return [];
  }
  return inner instanceof z.ZodObject ? Object.keys(inner.shape) : [];
}

/** An entry for an unknown name, with a similar name as hint. */
export function unknownField(pointer: string, name: string, names: readonly string[]): ProblemError {
  const near = nearestName(name, names);
  const hint = near === null ? {} : { hint: `did you mean "${near}"?` };
  return { pointer, code: "unknown_field", message: "is no known field", ...hint };
}

function valueAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>(
    (inner, part) =>
      typeof inner === "object" && inner !== null && Object.hasOwn(inner, part)
        ? (inner as Record<PropertyKey, unknown>)[part]
        : undefined,
    value,
  );
}

/** How to convert a failed check to entries. */
export interface Checked {
  schema: z.ZodType;
  /** The checked value. */
  value: unknown;
  /** The prefix of every pointer, such as `/query`. */
  prefix: string;
}

/** The entries for a schema issue. */
export function entriesOf(issue: z.core.$ZodIssue, { schema, value, prefix }: Checked): ProblemError[] {
  const { path } = issue;
  const pointer = prefix + pointerOf(path);
  if (issue.code === "unrecognized_keys") {
    const names = namesAt(schema, path);
    // No more are listed. A search for each of very many keys would delay other requests.
    const namesFor = (at: number) => at < MAX_LISTED_PROBLEMS ? names : [];
    return issue.keys.map((key, at) => unknownField(pointer + pointerOf([key]), key, namesFor(at)));
  }
  const found = valueAt(value, path);
  if (found === undefined) return [{ pointer, code: "missing_field", message: "is missing" }];
  const is_range = (issue.code === "too_small" || issue.code === "too_big") &&
    ["number", "int", "bigint"].includes(issue.origin);
  if (!is_range) return [{ pointer, code: "invalid_value", message: issue.message }];
  const bound = issue.code === "too_small"
    ? `${issue.inclusive ? "at least" : "above"} ${issue.minimum}`
    : `${issue.inclusive ? "at most" : "below"} ${issue.maximum}`;
  return [{ pointer, code: "out_of_range", message: `must be ${bound}, not ${String(found)}` }];
}

/** Checks a value. @returns The schema's output, or an entry for each problem. */
export function check(checked: Checked): { value: unknown; errors: ProblemError[] } {
  const parsed = checked.schema.safeParse(checked.value);
  if (parsed.success) return { value: parsed.data, errors: [] };
  const errors = parsed.error.issues.flatMap((issue) => entriesOf(issue, checked));
  return { value: null, errors: firstReasons(errors) };
}

/** The first reason at each place: a value that is refused twice has one fault. */
export function firstReasons(errors: readonly ProblemError[]): ProblemError[] {
  const places = new Set<string>();
  return errors.filter(({ pointer }) => places.size < places.add(pointer).size);
}
