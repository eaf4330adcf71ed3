/**
 * Every schema of the OpenAPI document, of requests, answers and events, with values drawn from it.
 *
 * - Some values satisfy it, and changed ones do not: it is neither impossible nor without a meaning.
 * - It says what this program checks. What the program accepts of a request, or allows as an answer, satisfies it; and
 *   the program accepts what satisfies it, but for rules that a schema cannot express, which are listed here.
 *
 * That the answers of handlers satisfy their schemas is checked by `send` of app_testing.ts, in every test with it.
 */

import assert from "node:assert/strict";
import type { ValidateFunction } from "ajv";
import fc from "fast-check";
import type { z } from "zod";
import { problemSchema } from "./http/problems.ts";
import { validatorsOf } from "./published_schema_testing.ts";
import { ROUTES } from "./route_table.ts";
import { openApiDocument } from "./routing/openapi.ts";
import type { Route } from "./routing/route.ts";
import { changedValues, referenced, validValues, type ZodJsonSchema } from "./schema_arbitrary_testing.ts";

/** The seed of all values. */
const SEED = 8;

/** Values of each schema that satisfy it, and such that are changed. */
const VALID = 30, CHANGED = 60;

const DOCUMENT = openApiDocument(ROUTES), validatorAt = validatorsOf(DOCUMENT);

const escaped = (name: string) => name.replaceAll("~", "~0").replaceAll("/", "~1");
const schemaAt = (place: string): ZodJsonSchema => referenced(place, DOCUMENT);

/** The places of all schemas in a part of the document. */
function* schemaPlaces(value: unknown, place: string): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    const at = `${place}/${escaped(key)}`;
    if (key === "schema" || key === "contentSchema") yield at;
    yield* schemaPlaces(inner, at);
  }
}

/** Of a kind of values: drawn ones, and the validator of their schema. */
function drawn(place: string) {
  const schema = schemaAt(place), validator = validatorAt(place);
  return {
    validator,
    valid: fc.sample(validValues(schema, DOCUMENT), { seed: SEED, numRuns: VALID }),
    changed: fc.sample(changedValues(schema, DOCUMENT), { seed: SEED, numRuns: CHANGED }),
  };
}

const said = ({ errors }: ValidateFunction, value: unknown) =>
  `${JSON.stringify(errors)} of ${JSON.stringify(value).slice(0, 1000)}`;

/** Named schemas that every value satisfies. */
const ANY_VALUE = ["#/components/schemas/JsonValue"];

Deno.test("every schema has values, and refuses changed ones", () => {
  const named = Object.keys(DOCUMENT.components.schemas!).map((name) => `#/components/schemas/${name}`);
  const places = [...named, ...schemaPlaces(DOCUMENT.components.headers, "#/components/headers")];
  places.push(...schemaPlaces(DOCUMENT.paths, "#/paths"));
  const open: string[] = [];
  for (const place of places) {
    const { validator, valid, changed } = drawn(place);
    for (const value of valid) assert.ok(validator(value), `${place}: ${said(validator, value)}`);
    if (changed.every((value) => validator(value))) open.push(place);
  }
  assert.ok(places.length > named.length + ROUTES.length);
  assert.deepEqual(open, ANY_VALUE);
});

/** A schema of the document, and the same in this program. */
interface Published {
  name: string;
  place: string;
  schema: z.ZodType;
}

const placeOf = ({ path, method }: Route) => `#/paths/${escaped(path)}/${method.toLowerCase()}`;
const jsonPlace = "content/application~1json/schema";

function publishedAnswers(route: Route): Published[] {
  const place = placeOf(route);
  return Object.entries(route.answers).flatMap(([status, { content = {}, events = {} }]) => {
    const at = `${place}/responses/${status}`, schema = content["application/json"];
    const items = `${at}/content/text~1event-stream/schema/contentSchema/items`;
    const names = Object.keys(events),
      formAt = (i: number) => names.length === 1 ? items : `${items}/anyOf/${i}`;
    return [
      ...(schema ? [{ name: `${route.operation} ${status}`, place: `${at}/${jsonPlace}`, schema }] : []),
      ...Object.entries(events).map(([name, schema], i) => ({
        name: `${route.operation} ${name}`,
        place: `${formAt(i)}/properties/data/contentSchema`,
        schema,
      })),
    ];
  });
}

const publishedBodies = (route: Route): Published[] => {
  const schema = route.body?.content["application/json"],
    place = `${placeOf(route)}/requestBody/${jsonPlace}`;
  return schema ? [{ name: route.operation, place, schema }] : [];
};

Deno.test("the document allows as an answer what this program allows", () => {
  const problem = { name: "problem", place: "#/components/schemas/Problem", schema: problemSchema };
  for (const { name, place, schema } of [problem, ...ROUTES.flatMap(publishedAnswers)]) {
    const { validator, valid, changed } = drawn(place);
    for (const value of [...valid, ...changed]) {
      // Fields that the program leaves out are no part of its answer.
      const { success, data } = schema.safeParse(value);
      // Only the validator knows formats.
      const satisfies = (one: unknown) => validator(one) || validator.errors![0]!.keyword === "format";
      if (success) assert.ok(satisfies(data), `${name}: ${said(validator, data)}`);
      else assert.ok(!validator(value), `${name}: ${JSON.stringify(value).slice(0, 1000)}`);
    }
  }
});

/** The fields whose own rules a value breaks; null when it breaks a form as well. In a union one form is enough. */
function brokenRules(issues: readonly z.core.$ZodIssue[]): string[] | null {
  const fields = issues.map((issue): string[] | null => {
    if (issue.code === "custom") return [issue.path.join("/")];
    if (issue.code !== "invalid_union") return null;
    return issue.errors.map(brokenRules).find((rules) => rules !== null) ?? null;
  });
  return fields.some((field) => field === null) ? null : fields.flatMap((field) => field!);
}

/** The rules that a schema cannot express, by operation and field. */
const RULES: Readonly<Record<string, readonly string[]>> = {
  create_plan: ["limits/ram", "limits/vram", "name", "params"],
  create_run: ["limits/ram", "limits/vram", "name", "params"],
  update_run: ["name", "tags"],
  generate_with_run: ["checkpoint"],
  create_chat_completion: ["max_tokens", "messages", "response_format", "stream_options"],
  // A cursor belongs to its list, and runs are compared once each.
  cursor: [""],
  runs: [""],
};

/** Checks that only listed rules refuse a value which the schema allows. */
function assertListed({ name, error, value }: { name: string; error: z.ZodError; value: unknown }): void {
  const fields = brokenRules(error.issues), listed = RULES[name] ?? [];
  const is_listed = fields?.every((field) =>
    listed.some((one) => field === one || field.startsWith(`${one}/`))
  );
  assert.ok(is_listed, `${name}: ${JSON.stringify(error.issues)} of ${JSON.stringify(value).slice(0, 1000)}`);
}

Deno.test("the document allows as a request what this program accepts, but for listed rules", () => {
  for (const { name, place, schema } of ROUTES.flatMap(publishedBodies)) {
    const { validator, valid, changed } = drawn(place);
    for (const value of [...valid, ...changed]) {
      const { success, error } = schema.safeParse(value);
      if (success) assert.ok(validator(value), `${name}: ${said(validator, value)}`);
      else if (validator(value)) assertListed({ name, error, value });
    }
  }
});

/** The text of a parameter as the value that its schema describes. */
function valueOf(text: string, { type }: ZodJsonSchema): unknown {
  if (type === "array") return text.split(",");
  return (type === "integer" || type === "number") && /^-?\d/.test(text) ? Number(text) : text;
}

Deno.test("the document allows as a parameter what this program accepts, but for listed rules", () => {
  const texts = fc.oneof(
    fc.string({ maxLength: 6 }),
    fc.integer().map(String),
    fc.constantFrom("-1", "", ","),
  );
  for (const route of ROUTES) {
    const parameters = referenced<{ parameters?: { name: string }[] }>(placeOf(route), DOCUMENT).parameters ??
      [];
    for (const [i, { name }] of parameters.entries()) {
      const schema = { ...route.query?.shape, ...route.headers }[name];
      if (!schema) continue;
      const place = `${placeOf(route)}/parameters/${i}/schema`, validator = validatorAt(place);
      const valid = validValues(schemaAt(place), DOCUMENT).map(String);
      for (const text of fc.sample(fc.oneof(valid, texts), { seed: SEED, numRuns: CHANGED })) {
        const { success, error } = schema.safeParse(text), value = valueOf(text, schemaAt(place));
        if (success) assert.ok(validator(value), `${route.operation} ${name}: ${said(validator, value)}`);
        else if (validator(value)) assertListed({ name, error, value: text });
      }
    }
  }
});
