/** The schemas that clients read in the OpenAPI document, with a validator that is not this program's. */

import assert from "node:assert/strict";
import type { ValidateFunction } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import type { z } from "zod";
import { problemSchema } from "./http/problems.ts";
import { openApiDocument } from "./routing/openapi.ts";
import type { OpenApiDocument } from "./routing/openapi_schema.ts";
import type { Route } from "./routing/route.ts";

/** The validators of a document's schemas by their place, such as `#/components/schemas/Run`. They check formats. */
export function validatorsOf(document: OpenApiDocument): (place: string) => ValidateFunction {
  // A keyword or a format that JSON Schema does not know is an error.
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
  addFormats.default(ajv as unknown as Parameters<typeof addFormats.default>[0]);
  // OpenAPI's name for bytes.
  ajv.addFormat("binary", true);
  Object.keys(document).forEach((name) => ajv.addKeyword(name));
  ajv.addSchema(document, "openapi");
  return (place) => ajv.compile({ $ref: `openapi${place}` });
}

const answer_validators = new WeakMap<z.ZodType, ValidateFunction>();
const problem_validators = new WeakMap<readonly Route[], ValidateFunction>();

/** The validator of an answer's schema, as a document has it. */
function answerValidator(schema: z.ZodType): ValidateFunction {
  const answers = { 200: { description: "It.", content: { "application/json": schema } } };
  const document = openApiDocument([
    {
      method: "GET",
      path: "/it",
      operation: "it",
      summary: "It.",
      answers,
      handler: () => ({ status: 200 }),
    },
  ]);
  return validatorsOf(document)("#/paths/~1it/get/responses/200/content/application~1json/schema");
}

/** The validator of problems, which have the codes that the routes of the table declare. */
const problemValidator = (routes: readonly Route[]) =>
  validatorsOf(openApiDocument(routes))("#/components/schemas/Problem");

function kept<K extends WeakKey>(
  known: WeakMap<K, ValidateFunction>,
  key: K,
  make: (key: K) => ValidateFunction,
) {
  const validator = known.get(key) ?? make(key);
  known.set(key, validator);
  return validator;
}

function assertValid(validator: ValidateFunction, value: unknown, what: string): void {
  assert.ok(validator(value), `${what} what clients do not expect: ${JSON.stringify(validator.errors)}`);
}

/**
 * Checks a value against a schema of an answer, as this program and as its clients read it.
 *
 * @param what The beginning of the error's message.
 * @throws {AssertionError}
 */
export function assertPublished(schema: z.ZodType, value: unknown, what: string): void {
  const { error } = schema.safeParse(value);
  assert.equal(error, undefined, `${what} what its schema does not allow: ${error}`);
  assertValid(kept(answer_validators, schema, answerValidator), value, what);
}

/** Checks the document of a problem in the same way. @throws {AssertionError} */
export function assertPublishedProblem(value: unknown, routes: readonly Route[]): void {
  problemSchema.parse(value);
  assertValid(kept(problem_validators, routes, problemValidator), value, "The problem is");
}
