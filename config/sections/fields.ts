/** The kinds of value that a configuration key can hold. */

import { z } from "zod";
import { LIMITS, type NumericKey, type Range } from "./limits.ts";

/** A key's `.meta()` besides its description. */
export interface FieldMeta {
  /** One line of help. */
  description: string;
  /** The rule that derives the value of an unset key; absent when the schema has a default. */
  rule?: string;
  /** A value for a starter configuration, where a rule derives the default. */
  example?: unknown;
  /** A path: `input` must exist, `output` is written. Both resolve against the configuration's directory. */
  path?: "input" | "output";
}

function within(schema: z.ZodNumber, range: Range): z.ZodNumber {
  const low = range.above ? schema.gt(range.min) : schema.gte(range.min);
  return range.below ? low.lt(range.max) : low.lte(range.max);
}

/** An integer within {@link LIMITS}. */
export function integer(key: NumericKey): z.ZodNumber {
  return within(z.int(), LIMITS[key]);
}

/** A finite number within {@link LIMITS}. */
export function number(key: NumericKey): z.ZodNumber {
  return within(z.number(), LIMITS[key]);
}

/** Text with at least one character. */
export function text(): z.ZodString {
  return z.string().min(1);
}

/** A name: letters, digits, `_`, `.` and `-`, starting with a letter or digit. */
export function name(): z.ZodString {
  return z.string().regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, {
    error: "must be a name: up to 128 letters, digits, '_', '.' and '-', a letter or digit first",
  });
}

/** The name of an environment variable. */
export function variableName(): z.ZodString {
  return z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, {
    error: "must be the name of an environment variable",
  });
}

/** A URL that `fetch` accepts. */
export function httpUrl(): z.ZodString {
  return z.string().regex(/^https?:\/\/[^\s/?#]+/, { error: "must be an http or https address" });
}

/** Whether an address has a user name or a password. */
export function hasCredentials(address: string | undefined): boolean {
  const { username = "", password = "" } = URL.parse(address ?? "") ?? {};
  return username !== "" || password !== "";
}

/** A program and its arguments. */
export function command(): z.ZodArray<z.ZodString> {
  return z.array(z.string()).min(1);
}

/** Variables that a chat template reads. */
export function templateVariablesSchema() {
  return z.record(z.string(), z.json());
}

/** A number in words: `0.28`, `3e-4`. */
export function numberText(value: number): string {
  return value < 0.01 ? value.toExponential() : String(value);
}
