/** The query parameters of a request. */

import { z } from "zod";
import { check, firstReasons, pointerOf, unknownField } from "./issues.ts";
import type { ProblemError } from "./problems.ts";

/** Parameters of a signed link; all routes except the download ignore them. */
const SIGNATURE = ["exp", "sig"];

/**
 * A parameter that is an integer between two bounds, both included. Whatever has digits only is an integer, however many
 * they are, so that a bound refuses those that are too large.
 */
export function integerParameter(min: number, max: number) {
  // Not z.int(), which has bounds of its own, and would be a second reason.
  const number = z.number().gte(min).lte(max).meta({ type: "integer" });
  return z.string().regex(/^-?\d+$/, { error: "must be an integer" }).transform(finiteNumber).pipe(number);
}

/** The number of a text with digits. Too many digits would be Infinity, which is no number of a schema. */
function finiteNumber(digits: string): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, Number(digits)));
}

/** A parameter that is a list of texts with commas between them. @param max The most texts. */
export function listParameter(min: number, max: number) {
  const form = new RegExp(`^[^,]+(,[^,]+){${min - 1},${max - 1}}$`);
  return z.string().regex(form, { error: `must be ${min} to ${max} names with commas between them` })
    .transform((text) => text.split(",")).pipe(z.array(z.string().min(1)).min(min).max(max));
}

/**
 * Checks the query of a target against a route's schema. An unknown parameter is `unknown_field`; a repeated one is
 * `invalid_value`.
 *
 * @param search The text after the `?`, as sent.
 */
export function readQuery(
  search: string,
  schema: z.ZodObject | undefined,
): { query: Record<string, unknown>; errors: ProblemError[] } {
  const names = Object.keys(schema?.shape ?? {});
  const errors: ProblemError[] = [];
  const sent = new Map<string, string>();
  const twice = new Set<string>();
  for (const [name, value] of new URLSearchParams(search)) {
    const pointer = `/query${pointerOf([name])}`;
    if (!names.includes(name)) {
      if (!SIGNATURE.includes(name)) errors.push(unknownField(pointer, name, names));
    } else if (sent.has(name)) {
      if (!twice.has(name)) errors.push({ pointer, code: "invalid_value", message: "is given twice" });
      twice.add(name);
    } else sent.set(name, value);
  }
  if (!schema) return { query: {}, errors: firstReasons(errors) };
  const checked = check({ schema, value: Object.fromEntries(sent), prefix: "/query" });
  return {
    query: checked.value as Record<string, unknown>,
    errors: firstReasons([...errors, ...checked.errors]),
  };
}
