/** Reads the body of a plan or a run as the configuration that it stands for. */

import { checkTree } from "../../config/check/check_tree.ts";
import type { Finding } from "../../config/check/issues.ts";
import {
  type Degradation,
  type ExpandedRequest,
  expandFork,
  expandRecipe,
} from "../../config/check/recipe.ts";
import { parseToml, type TomlTree, valueAt } from "../../config/text/toml_tree.ts";
import { type Bytes, readText } from "../routing/body.ts";
import { check, pointerOf } from "../http/issues.ts";
import { invalidRequest, type ProblemError } from "../http/problems.ts";
import { type ForkBody, type RunBody, tomlHeadSchema } from "./run_request.ts";

/** The body of a plan or a run, checked against the form that it has. */
export type RunRequestBody =
  | { content_type: "application/json"; value: RunBody }
  | { content_type: "application/toml"; stream: Bytes };

/** A request's configuration, not yet checked. */
export interface ConfigRequest extends ExpandedRequest, TomlTree {
  name: string | null;
  fork_from: { run: string; checkpoint?: string | undefined } | null;
  /** Null for a whole configuration. */
  recipe: { allow: readonly Degradation[]; limits: { vram?: unknown; ram?: unknown } } | null;
}

type Path = readonly (string | number)[];

type ParentTree = (run: string) => Promise<Record<string, unknown>>;

/**
 * Reads a body.
 *
 * @param parentTree The configuration of a fork's parent; it throws `not-found`.
 * @throws {Problem} `invalid-request` for TOML that cannot be read.
 */
export async function readConfigRequest(
  body: RunRequestBody,
  parentTree: ParentTree,
): Promise<ConfigRequest> {
  if (body.content_type === "application/toml") return readToml(await readText(body.stream));
  const { value } = body;
  const fork_from = "fork_from" in value ? value.fork_from : null, name = value.name ?? null;
  if ("config" in value && value.config !== undefined) {
    refuseBoth(value);
    const placeOf = (path: Path) => ["config", ...path];
    return {
      ...{ tree: value.config, floats: new Set(), placeOf, findings: [] },
      name,
      fork_from,
      recipe: null,
    };
  }
  const { allow = [], limits = {} } = value as ForkBody;
  const expanded = fork_from
    ? expandFork(await parentTree(fork_from.run), texts(value as ForkBody))
    : expandRecipe(texts(value as ForkBody) as Parameters<typeof expandRecipe>[0]);
  return { ...expanded, floats: new Set(), name, fork_from, recipe: { allow, limits } };
}

/** A fork has either a whole configuration or the changes of a recipe. */
function refuseBoth(value: RunBody): void {
  const both = Object.keys(value).filter((key) => !["config", "fork_from", "name"].includes(key));
  if (both.length === 0) return;
  const message = "stands beside a whole configuration, which has all keys itself";
  throw invalidRequest(both.map((key) => ({ pointer: `/${key}`, code: "invalid_value", message })));
}

/** Objectives that are no ids stay out of the configuration; `objectiveForms` refuses them. */
function texts(value: ForkBody): Parameters<typeof expandFork>[1] {
  const { objective } = value;
  if (!objective) return value as Parameters<typeof expandFork>[1];
  const id = (given: unknown) => typeof given === "string" ? given : undefined;
  return {
    ...value,
    objective: {
      reward: id(objective.reward),
      judge: id(objective.judge),
      environment: id(objective.environment),
      ...(objective.mcp_servers && {
        mcp_servers: objective.mcp_servers.filter((given) => typeof given === "string"),
      }),
    },
  };
}

/** The fields of an objective that hold what only the operator declares in place of an id. */
export function objectiveForms(body: RunRequestBody): string[] {
  const value = body.content_type === "application/json" ? body.value : {};
  const objective = "objective" in value ? value.objective ?? {} : {};
  return Object.entries(objective).flatMap(([field, given]) => {
    if (field !== "mcp_servers") return typeof given === "string" ? [] : [`/objective/${field}`];
    return (given as unknown[]).flatMap((entry, i) =>
      typeof entry === "string" ? [] : [`/objective/${field}/${i}`]
    );
  });
}

function readToml(text: string): ConfigRequest {
  const toml = parseToml(text);
  if ("message" in toml) {
    const place = `line ${toml.line}${toml.column === undefined ? "" : `, column ${toml.column}`}`;
    throw invalidRequest([{ pointer: "", code: "invalid_value", message: `${toml.message} (${place})` }]);
  }
  const { name, fork_from, ...tree } = toml.tree;
  const { value, errors } = check({ schema: tomlHeadSchema, value: { name, fork_from }, prefix: "" });
  if (errors.length > 0) throw invalidRequest(errors);
  const head = value as { name?: string; fork_from?: ConfigRequest["fork_from"] };
  return {
    ...{ tree, floats: toml.floats, placeOf: (path) => path, findings: [] },
    name: head.name ?? null,
    fork_from: head.fork_from ?? null,
    recipe: null,
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
  { placeOf, tree }: ExpandedRequest,
): ProblemError {
  return {
    pointer: pointerOf(placeOf(ownKey(path, tree))),
    code: code === "not_built" || code === "syntax" ? "invalid_value" : code,
    message,
    ...(hint === undefined ? {} : { hint }),
  };
}

/** All problems of a configuration's form. @param rules Whether its keys can be checked together. */
export function formProblems(request: ConfigRequest, effective: TomlTree, rules: boolean): ProblemError[] {
  const own = request.findings.filter(({ is_conflict }) => !is_conflict).map(ownEntry);
  const { findings } = checkTree(effective, { rules });
  return [...own, ...findings.map((finding) => entryOf(finding, request))];
}

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
