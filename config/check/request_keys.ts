/** Keys of a run configuration that a request may not hold, or that name files of the server. */

import { configJsonSchema, describeKeys, type JsonSchema } from "../describe.ts";
import type { Finding } from "./issues.ts";
import { isPrefix, valueAt } from "../text/toml_tree.ts";

type Path = (string | number)[];

/** Keys that only the operator declares, by dotted pattern; `*` is any index of a list. */
const OPERATORS_KEYS: readonly string[] = [
  ...["base_url", "model", "api_key_env", "cache_path"].map((key) => `agent.judge.${key}`),
  "agent.mcp_config",
  "agent.mcp_servers.*.command",
  "agent.mcp_servers.*.url",
  ...["type", "profile", "image", "runtime", "allow_network", "allow_unsandboxed", "base_url", "toolsets"]
    .map((key) => `agent.environment.${key}`),
  "agent.scenario_generation",
  "agent.collect_api",
];

const MESSAGE = "is for the operator alone: declare it in the server's catalogue, and give its id";

/** A key that holds a path. */
export interface PathKey {
  path: Path;
  value: string;
}

/** Every use of a key that only the operator declares. Below such a key nothing else is looked at. */
export function operatorsKeys(tree: unknown): Finding[] {
  const found = OPERATORS_KEYS.flatMap((pattern) => pathsOf(tree, pattern.split(".")));
  // A judge's type says what the operator's judge is.
  const type = ["agent", "judge", "type"];
  if (valueAt(tree, type) !== undefined && valueAt(tree, ["agent", "judge", "id"]) === undefined) {
    found.push(type);
  }
  const reward = ["agent", "reward"];
  if (typeof valueAt(tree, reward) === "object") found.push(reward);
  return found.map((path) => ({ path, code: "invalid_value", message: MESSAGE }));
}

/** A copy of a tree without the values at some paths, and without the tables and lists that are empty then. */
export function withoutPaths(tree: Record<string, unknown>, paths: readonly Path[]): Record<string, unknown> {
  const copy = structuredClone(tree);
  for (const path of paths) {
    for (let length = path.length; length > 0; length--) {
      const table = valueAt(copy, path.slice(0, length - 1)) as Record<string | number, unknown> | undefined;
      const key = path[length - 1]!;
      if (!table || !Object.hasOwn(table, key)) break;
      // Entries of a list keep their places, for the places of other findings.
      if (Array.isArray(table) && table.length > 1) break;
      delete table[key];
      if (Object.keys(table).length > 0) break;
    }
  }
  return copy;
}

/** The uses of keys that name a file to read (`input`) or a place to write (`output`). */
export function pathKeys(tree: unknown, kind: "input" | "output"): PathKey[] {
  const operators = operatorsKeys(tree);
  return describeKeys().flatMap(({ key, path: found }) => {
    const path = key.split("."), value = valueAt(tree, path);
    if (found !== kind || typeof value !== "string") return [];
    return operators.some((finding) => isPrefix(finding.path, path)) ? [] : [{ path, value }];
  });
}

/** The paths that exist in a tree and match a pattern. */
function pathsOf(tree: unknown, pattern: readonly string[]): Path[] {
  let found: Path[] = [[]];
  for (const part of pattern) {
    found = found.flatMap((path) => {
      const value = valueAt(tree, path);
      if (part === "*") return Array.isArray(value) ? value.map((_, i) => [...path, i]) : [];
      return valueAt(value, [part]) === undefined ? [] : [[...path, part]];
    });
  }
  return found;
}

/** The configuration that a request may hold, as JSON Schema 2020-12: without the operator's keys and output paths. */
export function requestJsonSchema(): JsonSchema {
  const schema = configJsonSchema();
  const outputs = describeKeys().filter(({ path }) => path === "output").map(({ key }) => key);
  for (const key of [...OPERATORS_KEYS, ...outputs]) removeProperty(schema, key.split("."));
  keepIds(schema.properties!.agent!.properties!.reward!);
  return schema;
}

/** Of the forms of a value only the id: the table is the operator's. */
function keepIds(schema: JsonSchema): void {
  const { anyOf, ...rest } = schema as JsonSchema & { anyOf: JsonSchema[] };
  const id = anyOf.find(({ type }) => type === "string");
  delete schema.anyOf;
  Object.assign(schema, id, rest);
}

function removeProperty(schema: JsonSchema | undefined, [part, ...rest]: readonly string[]): void {
  if (!schema || part === undefined) return;
  if (rest.length > 0) return removeProperty(part === "*" ? schema.items : schema.properties?.[part], rest);
  delete schema.properties?.[part];
  if (schema.required) schema.required = schema.required.filter((name) => name !== part);
}
