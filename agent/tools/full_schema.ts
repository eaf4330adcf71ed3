/** Checks arguments against a complete JSON Schema, without generating code. Schemas and arguments are untrusted. */

import { validate } from "@cfworker/json-schema";
import { argumentSchema, type Unusable } from "../../core/argument_schema.ts";
import { isTooDeep } from "../../core/json.ts";

/** The most subschemas that one check applies; more counts as a mismatch. */
export const MAX_CHECK_STEPS = 50_000;

/** The most values in arguments; more counts as a mismatch. */
export const MAX_ARGUMENT_VALUES = 5000;

/** Where arguments do not fit, as a JSON Pointer ("" is the whole); null when they fit. */
export type ArgumentCheck = (args: unknown) => string | null;

class TooManySteps extends Error {}

/**
 * A check for a schema.
 *
 * @throws {SchemaRefusal} See `argumentSchema`.
 */
export function compileSchema(schema: unknown, unusable?: Unusable): ArgumentCheck {
  const { root, targets, subschemas, dialect } = argumentSchema(schema, unusable);
  let steps = 0;
  // The validator reads the type of each subschema that it applies once: there alone it can be stopped.
  for (const subschema of subschemas) {
    const { type } = subschema;
    Object.defineProperty(subschema, "type", {
      get() {
        if (++steps > MAX_CHECK_STEPS) throw new TooManySteps();
        return type;
      },
    });
  }
  return (args) => {
    if (isTooDeep(args) || hasTooManyValues(args)) return "";
    steps = 0;
    try {
      const { valid, errors } = validate(
        args,
        root,
        dialect,
        targets as Parameters<typeof validate>[3],
        true,
      );
      return valid ? null : (errors.at(-1)?.instanceLocation ?? "").replace(/^#/, "");
    } catch (error) {
      if (error instanceof TooManySteps || error instanceof RangeError) return "";
      throw error;
    }
  };
}

function hasTooManyValues(root: unknown): boolean {
  const waiting = [root];
  for (let count = 1; waiting.length > 0; count++) {
    if (count > MAX_ARGUMENT_VALUES) return true;
    const value = waiting.pop();
    if (typeof value === "object" && value !== null) {
      waiting.push(...Object.values(value).slice(0, MAX_ARGUMENT_VALUES));
    }
  }
  return false;
}
