/** Reads the body of a plan or a run as a configuration, with all problems of its form. */

import { isJsonObject } from "../../core/json.ts";
import { objectiveIds, objectivePlaces } from "../../config/check/catalogue_tables.ts";
import { checkTree } from "../../config/check/check_tree.ts";
import type { Finding } from "../../config/check/issues.ts";
import {
  type Degradation,
  type ExpandedRequest,
  expandFork,
  expandRecipe,
  keysOfField,
  type Recipe,
  type RecipeChanges,
} from "../../config/check/recipe.ts";
import {
  catalogueIds,
  isOperatorsKey,
  joinedTables,
  keysOfEntries,
  operatorsKeys,
  withoutPaths,
} from "../../config/check/request_keys.ts";
import {
  isPrefix,
  parseToml,
  type Table,
  type TomlSyntaxError,
  type TomlTree,
  valueAt,
} from "../../config/text/toml_tree.ts";
import { check, pointerOf } from "../http/issues.ts";
import type { ProblemError } from "../http/problems.ts";
import { formOf, type PartialBody, tomlHeadSchema } from "./run_request.ts";

type Path = readonly (string | number)[];
/** A request's configuration. */
export interface ConfigRequest extends ExpandedRequest, TomlTree {
  name: string | null;
  fork_from: { run: string; checkpoint?: string | undefined } | null;
  /** Null for a complete configuration. */
  recipe: {
    algorithm: string | undefined;
    allow: readonly Degradation[];
    limits: { vram?: unknown; ram?: unknown };
  } | null;
  /** Fields that hold what only the operator declares, in place of an id: the place, and the key that it stands for. */
  forms: { place: Path; key: Path }[];
  /** Media type and text of the body: equal for equal requests. It is made on demand, because a body may be large. */
  source: () => string;
}

/** A request with all problems of its form. */
export interface ReadRequest {
  request: ConfigRequest;
  errors: ProblemError[];
}

/** The keys that the parent of a fork sets; null when there is no such run. */
type ParentKeys = (run: string) => Table | null;

/** Reads a JSON body. When a field is wrong, the other fields are checked too. */
export function readJsonRequest(value: unknown, parentKeys: ParentKeys): ReadRequest {
  const form = check({ schema: formOf(value), value, prefix: "" });
  const wrong = new Set(form.errors.map(({ pointer }) => pointer.split("/")[1] ?? ""));
  const body = (form.value ?? without(value, wrong)) as PartialBody;
  const { name = null, fork_from = null, config } = body,
    source = () => `application/json\n${JSON.stringify(value)}`;
  const head = { name, fork_from, source, floats: new Set<string>() };
  if (config !== undefined || wrong.has("config")) {
    const both = besideConfig(body, wrong);
    const request = { ...head, ...written(config ?? {}, (path) => ["config", ...path]), recipe: null };
    const own = config === undefined ? [] : formProblems(request, {});
    return { request, errors: [...form.errors, ...both, ...own] };
  }
  const is_fork = valueAt(value, ["fork_from"]) !== undefined;
  const parent = fork_from && parentKeys(fork_from.run);
  const is_complete = !["recipe", "params", "fork_from"].some((field) => wrong.has(field)) &&
    (!is_fork || parent !== null);
  const changes = withIds(body);
  const expanded = is_fork || changes.recipe === undefined
    ? expandFork(parent ?? {}, changes)
    : expandRecipe(changes as Recipe);
  const { allow = [], limits = {} } = body;
  const forms = [...formsOf(body), ...hiddenForms(body, expanded)];
  const request = { ...head, ...expanded, recipe: { algorithm: changes.recipe, allow, limits }, forms };
  // The keys that a wrong or missing field sets are not known.
  const missing = expanded.findings.filter(({ code }) => code === "missing_field").map(({ path }) => path[0]);
  const unknown = [...wrong, ...missing].flatMap((field) => keysOfField(String(field)));
  const rest = !isJsonObject(value) ? [] : formProblems(request, { is_partial: !is_complete, unknown })
    .filter(({ pointer }) => !form.errors.some((error) => error.pointer === pointer))
    .filter(({ pointer, code }, i, all) =>
      all.findIndex((error) => error.pointer === pointer && error.code === code) === i
    );
  return { request, errors: [...form.errors, ...rest] };
}

/** The longest TOML body. Reading a longer one would delay other requests. */
export const MAX_TOML_CHARS = 1 << 17;

const TOO_LONG: TomlSyntaxError = { message: `is longer than ${MAX_TOML_CHARS} characters`, line: 1 };

/** Reads a TOML body. */
export function readTomlRequest(text: string): ReadRequest {
  const toml = text.length > MAX_TOML_CHARS ? TOO_LONG : parseToml(text), errors: ProblemError[] = [];
  const { name, fork_from, ...tree } = "message" in toml ? {} as Table : toml.tree;
  const head = check({ schema: tomlHeadSchema, value: { name, fork_from }, prefix: "" });
  const { name: given, fork_from: parent } = (head.value ?? {}) as {
    name?: string;
    fork_from?: ConfigRequest["fork_from"];
  };
  const request = {
    ...written(tree, (path) => path),
    ...{
      floats: "message" in toml ? new Set<string>() : toml.floats,
      source: () => `application/toml\n${text}`,
    },
    ...{ name: given ?? null, fork_from: parent ?? null, recipe: null },
  };
  if ("message" in toml) {
    const place = `line ${toml.line}${toml.column === undefined ? "" : `, column ${toml.column}`}`;
    errors.push({ pointer: "", code: "invalid_value", message: `${toml.message} (${place})` });
  } else errors.push(...head.errors, ...formProblems(request, {}));
  return { request, errors };
}

/** A complete configuration, as its author wrote it. */
function written(tree: Table, placeOf: (path: Path) => Path): ExpandedRequest & Pick<ConfigRequest, "forms"> {
  return { tree, placeOf, sets: (path) => valueAt(tree, path) !== undefined, findings: [], forms: [] };
}

function without(value: unknown, fields: ReadonlySet<string>): Table {
  if (typeof value !== "object" || value === null || fields.has("")) return {};
  return Object.fromEntries(Object.entries(value).filter(([field]) => !fields.has(field)));
}

/** A fork has either a complete configuration or the changes of a recipe. */
function besideConfig(body: PartialBody, wrong: ReadonlySet<string>): ProblemError[] {
  const message = "cannot be combined with a complete configuration, which has all keys";
  return Object.keys(body).filter((key) => !["config", "fork_from", "name"].includes(key) && !wrong.has(key))
    .map((key) => ({ pointer: `/${key}`, code: "invalid_value", message }));
}

/** The places of an objective that have no id, and the keys that an id there would set. */
function formsOf({ objective = {} }: PartialBody): ConfigRequest["forms"] {
  return objectivePlaces(objective).filter(({ given }) => given !== undefined && typeof given !== "string")
    .map(({ place, key }) => ({ place, key }));
}

/** Keys of the operator in a parameter that is not in the tree, because another field sets a part of it. */
function hiddenForms({ params = {} }: PartialBody, { findings }: ExpandedRequest): ConfigRequest["forms"] {
  return findings.filter(({ is_conflict }) => is_conflict).flatMap(({ path: place }) => {
    const name = String(place[1]), key = name.split(".");
    const alone = key.reduceRight<unknown>((value, part) => ({ [part]: value }), params[name]);
    return operatorsKeys(alone).map(({ path }) => ({
      place: [...place, ...path.slice(key.length)],
      key: path,
    }));
  });
}

/** The fields of a recipe with the ids of its objective alone; {@link formsOf} has the rest. */
function withIds({ objective, ...body }: PartialBody): RecipeChanges {
  return objective ? { ...body, objective: objectiveIds(objective) } : body;
}

/** The key of the request that sets a key: for a key of a catalogue entry, the one with the entry's id. */
function ownKey(path: Path, tree: unknown): Path {
  if (valueAt(tree, path) !== undefined) return path;
  for (let length = path.length - 1; length > 0; length--) {
    const id = [...path.slice(0, length), "id"];
    if (valueAt(tree, id) !== undefined) return id;
  }
  return path;
}

/** A finding as an entry of a problem, at the field of the request that sets its key. */
export function problemEntry(
  { path, code, message, hint }: Finding,
  { placeOf, tree }: Pick<ExpandedRequest, "placeOf" | "tree">,
): ProblemError {
  return {
    pointer: pointerOf(placeOf(ownKey(path, tree))),
    code: code === "not_built" || code === "syntax" ? "invalid_value" : code,
    message,
    ...(hint === undefined ? {} : { hint }),
  };
}

/** All problems of a configuration's form. Problems of catalogue entries are found later. */
function formProblems(
  request: ConfigRequest,
  { is_partial = false, unknown = [] }: { is_partial?: boolean; unknown?: (string | number)[][] },
): ProblemError[] {
  const own = request.findings.filter(({ is_conflict }) => !is_conflict).map(ownEntry);
  const declared = operatorsKeys(request.tree).map(({ path }) => path);
  const tree = withoutPaths(request.tree, declared);
  const { findings } = checkTree({ tree, floats: request.floats }, {
    unknown: [...unknown, ...declared, ...request.forms.map(({ key }) => [...key]), ...keysOfEntries(tree)],
    ids: catalogueIds(tree).map(({ path }) => path),
    is_partial,
  });
  const operators = findings.filter(({ path }) => isOperatorsKey(path)).map(({ path }) => path);
  const others = findings.filter(({ path }) => !isOperatorsKey(path));
  const tables = joinedTables(tree).filter(({ path }) => operators.some((at) => isPrefix(path, at)));
  const nameless = tables.map(({ path }): Finding => ({ path: [...path, "id"], ...NO_ID }));
  return [...own, ...[...others, ...nameless].map((finding) => problemEntry(finding, request))];
}

/** For a key that a file would set itself, a request has the id of a catalogue entry. */
const NO_ID = {
  code: "missing_field",
  message: "is missing: it is the id of an entry of the server's catalogue",
} as const;

/** Fields of the request that contradict each other. */
export function conflictsOf({ findings }: ConfigRequest): ProblemError[] {
  return findings.filter(({ is_conflict }) => is_conflict).map((finding) => ({
    ...ownEntry(finding),
    code: "override_conflict",
  }));
}

/** The findings of the recipe itself are at places of the request already. */
function ownEntry({ path, code, message, hint }: Finding): ProblemError {
  return {
    pointer: pointerOf(path),
    code: code as ProblemError["code"],
    message,
    ...(hint === undefined ? {} : { hint }),
  };
}
