/** Checks that the parameters of a tool are a JSON Schema of objects, so that arguments can be checked against it. */

import { isJsonObject } from "../../core/json.ts";

/** The types of JSON Schema. */
const TYPES = ["string", "number", "integer", "boolean", "null", "array", "object"];

/**
 * What is wrong with a schema that another program gave for a tool's parameters; null: nothing. Keywords that
 * `matchesSchema` does not read may have any value.
 *
 * @param parameters Not nested deeper than `MAX_JSON_DEPTH`.
 */
export function schemaProblem(parameters: Record<string, unknown>): string | null {
  const { type = "object" } = parameters;
  return type === "object" ? problemOf(parameters, "parameters") : 'parameters must have the type "object"';
}

function problemOf(schema: unknown, place: string): string | null {
  if (typeof schema === "boolean") return null;
  if (!isJsonObject(schema)) return `${place} must be a schema`;
  const { type, required, properties, items, additionalProperties } = schema;
  const types = type === undefined ? [] : [type].flat();
  if (!types.every((name) => TYPES.includes(name as string))) return `${place}.type must name types`;
  const is_list_of_names = Array.isArray(required) && required.every((name) => typeof name === "string");
  if (required !== undefined && !is_list_of_names) return `${place}.required must be a list of names`;
  if (properties !== undefined && !isJsonObject(properties)) return `${place}.properties must be an object`;
  const inner: [string, unknown][] = Object.entries(properties ?? {}).map((
    [name, item],
  ) => [`properties.${name}`, item]);
  if (items !== undefined && !Array.isArray(items)) inner.push(["items", items]);
  if (additionalProperties !== undefined) inner.push(["additionalProperties", additionalProperties]);
  for (const [name, item] of inner) {
    const problem = problemOf(item, `${place}.${name}`);
    if (problem !== null) return problem;
  }
  return null;
}
