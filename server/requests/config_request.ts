/** Reads the body of a plan or a run as the configuration that it stands for, with all problems of its form. */

import { DATA_KEYS } from "../../config/algorithms.ts";
import { checkTree } from "../../config/check/check_tree.ts";
import type { Finding } from "../../config/check/issues.ts";
import {
  type Degradation,
  type ExpandedRequest,
  expandFork,
  expandRecipe,
  type Recipe,
  type RecipeChanges,
} from "../../config/check/recipe.ts";
import {
  catalogueIds,
  catalogueTables,
  isOperatorsKey,
  keysOfEntries,
  operatorsKeys,
  withoutPaths,
} from "../../config/check/request_keys.ts";
import {
  isPrefix,
  parseToml,
  type TomlSyntaxError,
  type TomlTree,
  valueAt,
} from "../../config/text/toml_tree.ts";
import { check, pointerOf } from "../http/issues.ts";
import type { ProblemError } from "../http/problems.ts";
import { formOf, type PartialBody, type RecipeBody, tomlHeadSchema } from "./run_request.ts";

type Path = readonly (string | number)[];
type Table = Record<string, unknown>;

/** A request's configuration. */
export interface ConfigRequest extends ExpandedRequest, TomlTree {
  name: string | null;
  fork_from: { run: string; checkpoint?: string | undefined } | null;
  /** Null for a whole configuration. */
  recipe: { allow: readonly Degradation[]; limits: { vram?: unknown; ram?: unknown } } | null;
  /** Fields that hold what only the operator declares, in place of an id: the place, and the key that it stands for. */
  forms: { place: Path; key: Path }[];
  /** Media type and text of the body: equal for equal requests. */
  source: string;
}

/** A request with all problems of its form. */
export interface ReadRequest {
  request: ConfigRequest;
  errors: ProblemError[];
}

/** The keys that the parent of a fork sets; null when there is no such run. */
export type ParentKeys = (run: string) => Table | null;

/** Reads a JSON body. Around a field that is wrong, the others are checked all the same. */
export function readJsonRequest(value: unknown, parentKeys: ParentKeys): ReadRequest {
  const form = check({ schema: formOf(value), value, prefix: "" });
  const wrong = new Set(form.errors.map(({ pointer }) => pointer.split("/")[1] ?? ""));
  const body = (form.value ?? without(value, wrong)) as PartialBody;
  const { name = null, fork_from = null, config } = body,
    source = `application/json\n${JSON.stringify(value)}`;
  const head = { name, fork_from, source, floats: new Set<string>() };
  if (config !== undefined) {
    const tree = config, both = besideConfig(body, wrong);
    const request = { ...head, ...written(tree, (path) => ["config", ...path]), recipe: null };
    return { request, errors: [...form.errors, ...both, ...formProblems(request, {})] };
  }
  const is_fork = valueAt(value, ["fork_from"]) !== undefined;
  const parent = fork_from && parentKeys(fork_from.run);
  const is_whole = !["recipe", "params", "fork_from"].some((field) => wrong.has(field)) &&
    (!is_fork || parent !== null);
  const changes = withIds(body);
  const expanded = is_fork || changes.recipe === undefined
    ? expandFork(parent ?? {}, changes)
    : expandRecipe(changes as Recipe);
  const { allow = [], limits = {} } = body;
  const forms = [...formsOf(body), ...hiddenForms(body, expanded)];
  const request = { ...head, ...expanded, recipe: { allow, limits }, forms };
  const unknown = Object.entries(FIELD_KEYS).filter(([field]) => wrong.has(field))
    .flatMap(([, keys]) => keys.map((key) => key.split(".")));
  const rest = formProblems(request, { is_partial: !is_whole, unknown })
    .filter(({ pointer }) => !form.errors.some((error) => error.pointer === pointer));
  return { request, errors: [...form.errors, ...rest] };
}

/** The longest TOML body: reading a longer one would hold up other requests. */
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
    ...{ floats: "message" in toml ? new Set<string>() : toml.floats, source: `application/toml\n${text}` },
    ...{ name: given ?? null, fork_from: parent ?? null, recipe: null },
  };
  if ("message" in toml) {
    const place = `line ${toml.line}${toml.column === undefined ? "" : `, column ${toml.column}`}`;
    errors.push({ pointer: "", code: "invalid_value", message: `${toml.message} (${place})` });
  } else errors.push(...head.errors, ...formProblems(request, {}));
  return { request, errors };
}

/** A whole configuration. */
function written(tree: Table, placeOf: (path: Path) => Path): ExpandedRequest & Pick<ConfigRequest, "forms"> {
  return { tree, placeOf, sets: (path) => valueAt(tree, path) !== undefined, findings: [], forms: [] };
}

/** The keys that fields of a recipe set: while a field is wrong, theirs are not known. */
const FIELD_KEYS: Readonly<Record<string, readonly string[]>> = {
  model: ["model.path"],
  data: DATA_KEYS,
  scenarios: DATA_KEYS,
  objective: ["agent.reward", "agent.judge", "agent.environment", "agent.mcp_servers"],
  budget: ["agent.updates", "training.updates", "training.epochs", "training.max_minutes"],
};

function without(value: unknown, fields: ReadonlySet<string>): Table {
  if (typeof value !== "object" || value === null || fields.has("")) return {};
  return Object.fromEntries(Object.entries(value).filter(([field]) => !fields.has(field)));
}

/** A fork has either a whole configuration or the changes of a recipe. */
function besideConfig(body: PartialBody, wrong: ReadonlySet<string>): ProblemError[] {
  const message = "stands beside a whole configuration, which has all keys itself";
  return Object.keys(body).filter((key) => !["config", "fork_from", "name"].includes(key) && !wrong.has(key))
    .map((key) => ({ pointer: `/${key}`, code: "invalid_value", message }));
}

type Objective = NonNullable<RecipeBody["objective"]>;

/** The fields of an objective that are no ids, and the keys for which these would stand. */
function formsOf({ objective = {} }: PartialBody): ConfigRequest["forms"] {
  const keys = { reward: "reward", judge: "judge", environment: "environment" };
  const single = Object.entries(keys).flatMap(([field, key]) => {
    const given = objective[field as keyof typeof keys];
    const is_id = given === undefined || typeof given === "string";
    return is_id ? [] : [{ place: ["objective", field], key: ["agent", key] }];
  });
  const servers = (objective.mcp_servers ?? []).flatMap((given, i) =>
    typeof given === "string"
      ? []
      : [{ place: ["objective", "mcp_servers", i], key: ["agent", "mcp_servers", i] }]
  );
  return [...single, ...servers];
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
  if (!objective) return body;
  const id = (given: Objective["reward"]) => typeof given === "string" ? given : undefined;
  const { reward, judge, environment, mcp_servers } = objective;
  return {
    ...body,
    objective: {
      ...{ reward: id(reward), judge: id(judge), environment: id(environment) },
      ...(mcp_servers && { mcp_servers: mcp_servers.filter((given) => typeof given === "string") }),
    },
  };
}

/** A key of the request: for one that a catalogue entry has, the id that names the entry. */
function ownKey(path: Path, tree: unknown): Path {
  if (valueAt(tree, path) !== undefined) return path;
  for (let length = path.length - 1; length > 0; length--) {
    const id = [...path.slice(0, length), "id"];
    if (valueAt(tree, id) !== undefined) return id;
  }
  return path;
}

/** A finding as an entry of a problem, at the field of the request that stands for its key. */
export function entryOf(
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

/** All problems of a configuration's form. What a catalogue would say is not known here. */
function formProblems(
  request: ConfigRequest,
  { is_partial = false, unknown = [] }: { is_partial?: boolean; unknown?: string[][] },
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
  const tables = catalogueTables(tree).filter(({ path }) => operators.some((at) => isPrefix(path, at)));
  const nameless = tables.map(({ path }): Finding => ({ path: [...path, "id"], ...NO_ID }));
  return [...own, ...[...others, ...nameless].map((finding) => entryOf(finding, request))];
}

/** What a file would have to say itself, a request says with an id. */
const NO_ID = {
  code: "missing_field",
  message: "is missing: names an entry of the server's catalogue",
} as const;

/** Fields of the request that contradict each other. */
export function conflictsOf({ findings }: ConfigRequest): ProblemError[] {
  return findings.filter(({ is_conflict }) => is_conflict).map((finding) => ({
    ...ownEntry(finding),
    code: "override_conflict",
  }));
}

/** The recipe's own findings have places of the request already. */
function ownEntry({ path, code, message, hint }: Finding): ProblemError {
  return {
    pointer: pointerOf(path),
    code: code as ProblemError["code"],
    message,
    ...(hint === undefined ? {} : { hint }),
  };
}
