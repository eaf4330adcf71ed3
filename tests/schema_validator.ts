/** An independent validator of JSON schemas, and the suites of schemas in `fixtures/`. */

import { Ajv, type ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { readFixtureJson } from "./fixture.ts";

/** A schema of a suite with values that satisfy it, and values that do not. */
export interface SuiteSchema {
  name: string;
  schema: Record<string, unknown> | boolean;
  valid: unknown[];
  invalid: unknown[];
}

/** Schemas from practice, see `fixtures/manifest.json`. */
export const maskBench = (): Promise<SuiteSchema[]> => readFixtureJson("schemas/maskbench.json");

/** The official test suite of draft 2020-12. */
export const officialSuite = (): Promise<SuiteSchema[]> => readFixtureJson("schemas/test_suite.json");

/**
 * A function that tells whether a value satisfies the schema; formats are asserted. Null for a schema that the
 * validator refuses.
 */
export function validatorOf(schema: SuiteSchema["schema"]): ValidateFunction | null {
  const { $schema = "", $id: _, id: __, ...rest } = schema as Record<string, unknown>;
  const Draft = /20(19|20)/.test(String($schema)) ? Ajv2020 : Ajv;
  // Patterns from practice are often valid without the u flag alone.
  for (const unicodeRegExp of [true, false]) {
    const ajv = new Draft({ strict: false, unicodeRegExp, logger: false });
    addFormats.default(ajv as Ajv);
    try {
      return ajv.compile(typeof schema === "boolean" ? schema : rest);
    } catch {
      continue;
    }
  }
  return null;
}
