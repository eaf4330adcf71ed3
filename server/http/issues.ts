/** Converts schema errors in a request to entries of a problem document. */

import { z } from "zod";
import { choiceHint, EXPECTED, showValue } from "../../config/check/issues.ts";
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
function entriesOf(issue: z.core.$ZodIssue, { schema, value, prefix }: Checked): ProblemError[] {
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
  const meant = issue.code === "invalid_union" ? meantForm(issue) : null;
  if (meant) {
    return meant.flatMap((inner) =>
      entriesOf({ ...inner, path: [...path, ...inner.path] }, { schema, value, prefix })
    );
  }
  const is_range = (issue.code === "too_small" || issue.code === "too_big") &&
    ["number", "int", "bigint"].includes(issue.origin);
  // A parameter is shown as it was sent: its number may have lost digits.
  if (is_range) {
    return [{ pointer, code: "out_of_range", message: `must be ${boundText(issue)}, not ${String(found)}` }];
  }
  const hint = choiceHint(choicesOf(issue) ?? [], found);
  return [{ pointer, code: "invalid_value", message: issue.message, ...(hint === null ? {} : { hint }) }];
}

type UnionIssue = Extract<z.core.$ZodIssue, { code: "invalid_union" }>;

/** The form of a union whose parts have the fewest problems; null when the value has the type of none. */
function meantForm({ errors }: UnionIssue): z.core.$ZodIssue[] | null {
  const hasParts = (form: z.core.$ZodIssue[]) =>
    form.some(({ path, code }) => path.length > 0 || code === "unrecognized_keys");
  return errors.filter(hasParts).toSorted((a, b) => a.length - b.length)[0] ?? null;
}

/** What a value may be; null when it is not one of a list. */
function choicesOf(issue: z.core.$ZodIssue | z.core.$ZodRawIssue): readonly unknown[] | null {
  if (issue.code === "invalid_value") return issue.values as unknown[];
  return issue.code === "invalid_union" && "options" in issue ? issue.options as unknown[] : null;
}

function choiceText(choices: readonly unknown[], value: unknown): string {
  const given = typeof value === "string" ? "" : `, not ${shownValue(value)}`;
  return `must be ${choices.map((choice) => JSON.stringify(choice)).join(" or ")}${given}`;
}

/** The names of types in messages, as JSON has them. */
const TYPES: Readonly<Record<string, string>> = { ...EXPECTED, object: "an object", record: "an object" };

/** A value in a message. A text is not shown: a client may have put a key into the wrong field. */
function shownValue(value: unknown): string {
  if (value === null) return "null";
  if (typeof value === "string") return "a string";
  return typeof value === "object" && !Array.isArray(value) ? "an object" : showValue(value);
}

/** Words are made for this many issues of a value: more than are listed, with the forms of unions. */
const MAX_WORDED = 10 * MAX_LISTED_PROBLEMS;

/** The words for the issues of one value. Making them for each of very many would delay other requests. */
function words(): (issue: z.core.$ZodRawIssue) => string | undefined {
  let worded = 0;
  return (issue) => worded++ < MAX_WORDED ? wordsOf(issue) : "is not valid";
}

/** A problem in words; undefined leaves it to the library. A schema's own words come before these. */
function wordsOf(issue: z.core.$ZodRawIssue): string | undefined {
  const { input } = issue;
  switch (issue.code) {
    case "invalid_type":
      return `must be ${typeName(String(issue.expected))}, not ${shownValue(input)}`;
    case "invalid_value":
      return choiceText(choicesOf(issue)!, input);
    case "invalid_union":
      return unionText(issue);
    case "too_small":
    case "too_big":
      return sizeText(issue);
  }
}

function typeName(expected: string): string {
  return TYPES[expected] ?? expected;
}

function unionText(issue: z.core.$ZodRawIssue<UnionIssue>): string {
  const { input, discriminator } = issue, choices = choicesOf(issue);
  if (choices) return choiceText(choices, (input as Record<string, unknown>)[discriminator!]);
  const forms = issue.errors.map(([first]) => first!);
  // A value of the right type is of that form, and has another fault.
  const own = forms.find(({ code }) => code !== "invalid_type" && code !== "invalid_value");
  if (own) return own.message;
  const names = forms.map((form) =>
    form.code === "invalid_type"
      ? typeName(form.expected)
      : choicesOf(form)!.map((choice) => JSON.stringify(choice)).join(" or ")
  );
  return `must be ${[...new Set(names)].join(" or ")}, not ${shownValue(input)}`;
}

interface Bound {
  code?: string;
  inclusive?: unknown;
  minimum?: unknown;
  maximum?: unknown;
}

/** The bound that a size or a number exceeds. */
function boundText(issue: Bound): string {
  if (issue.code === "too_small") return `${issue.inclusive ? "at least" : "above"} ${issue.minimum}`;
  return `${issue.inclusive ? "at most" : "below"} ${issue.maximum}`;
}

/** The unit of a size; undefined for a number. */
const UNITS: Readonly<Record<string, string>> = { string: "characters", array: "entries" };

function sizeText(issue: z.core.$ZodRawIssue): string | undefined {
  const unit = UNITS[String(issue.origin)];
  if (unit === undefined) return undefined;
  const is_empty = issue.code === "too_small" && issue.minimum === 1;
  return is_empty ? "must not be empty" : `must have ${boundText(issue)} ${unit}`;
}

/** Entries without words. */
function countedEntries(issue: z.core.$ZodIssue, { prefix }: Checked): ProblemError[] {
  const pointer = prefix + pointerOf(issue.path),
    keys = issue.code === "unrecognized_keys" ? issue.keys : null;
  const pointers = keys ? keys.map((key) => pointer + pointerOf([key])) : [pointer];
  return pointers.map((pointer) => ({ pointer, code: "invalid_value", message: "is not valid" }));
}

/** Checks a value. @returns The schema's output, or an entry for each problem. */
export function check(checked: Checked): { value: unknown; errors: ProblemError[] } {
  const parsed = checked.schema.safeParse(checked.value, { error: words() });
  if (parsed.success) return { value: parsed.data, errors: [] };
  const errors: ProblemError[] = [];
  for (const issue of parsed.error.issues) {
    // No more are listed: the others are only counted.
    if (errors.length < MAX_LISTED_PROBLEMS) errors.push(...entriesOf(issue, checked));
    else errors.push(...countedEntries(issue, checked));
  }
  return { value: null, errors: firstReasons(errors) };
}

/** The first reason at each place: a value that is refused twice has one fault. */
export function firstReasons(errors: readonly ProblemError[]): ProblemError[] {
  const places = new Set<string>();
  return errors.filter(({ pointer }) => places.size < places.add(pointer).size);
}
