/** The checks of a plan or a run in the contract's order, and the plan. */

import { basename, extname } from "node:path";
import { stringify } from "smol-toml";
import { DATA_KEYS } from "../../config/algorithms.ts";
import { type AppliedCatalogue, applyCatalogue } from "../../config/check/catalogue.ts";
import { operatorsKeys, pathKeys, withoutPaths } from "../../config/check/request_keys.ts";
import { valueAt } from "../../config/text/toml_tree.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import type { PlannedRequest, PlanRefusal } from "../../runs/plan/plan_request.ts";
import { pointerOf } from "../http/issues.ts";
import { clientData, clientFile, forbiddenPath } from "../access/paths.ts";
import { invalidRequest, Problem, type ProblemError, type ProblemType, refusal } from "../http/problems.ts";
import { ownPlaces } from "../resources/run_document.ts";
import type { Services } from "../routing/services.ts";
import {
  type ConfigRequest,
  conflictsOf,
  entryOf,
  formProblems,
  objectiveForms,
  readConfigRequest,
  type RunRequestBody,
} from "./config_request.ts";
import { type Fork, forkChanges, forkOf } from "./fork_request.ts";
import { publicPlan } from "./public_plan.ts";
import { planTarget } from "./plan_target.ts";

type Table = Record<string, unknown>;

/** A planned run, ready to be created. */
export interface PlannedRun {
  name: string;
  algorithm: string;
  planned: PlannedRequest;
  /** The configuration for the run's process in a folder. */
  processConfig: (directory: string) => string;
  /** The field of the request that sets a key; `""` when none does. */
  fieldOf: (key: string) => string;
  fork: Fork | null;
}

/** Checks a request and plans it. Nothing is created. @throws {Problem} Of the first class of checks that fails. */
export async function planRun(
  body: RunRequestBody,
  { services, signal }: { services: Services; signal: AbortSignal },
): Promise<PlannedRun> {
  const request = await readConfigRequest(body, (run) => parentTree(run, services));
  const declared = operatorsKeys(request.tree);
  const stripped = withoutPaths(request.tree, declared.map(({ path }) => path));
  const applied = applyCatalogue({ tree: stripped, floats: request.floats }, services.config);
  const forms = objectiveForms(body);
  const is_complete = declared.length === 0 && forms.length === 0 && applied.unknown.length === 0;
  const known = withoutUnknown(applied);
  const invalid = formProblems(request, known, is_complete);
  if (invalid.length > 0) throw invalidRequest(invalid);
  const fork = request.fork_from && await forkOf(request.fork_from, services);
  const files = await realFiles(request, services);
  const config = placed(known.tree, files);
  const refused = catalogueRefusal(request, { declared, forms, applied }) ??
    problemOf("conflict", conflictsOf(request));
  const planned = await plan(config, { request, services, files, signal, refused });
  if (refused) throw refused;
  assert(planned !== null, "a request without a refusal is planned");
  const shown = publicPlan(planned.plan, { written: request.tree });
  if (fork) refuseForkChanges(fork, { config: shown.config as unknown as Table, request });
  const algorithm = planned.plan.config.run.algorithm;
  return {
    name: request.name ?? defaultName(request.tree, algorithm),
    algorithm,
    planned: { ...planned, plan: shown },
    processConfig: (directory) => tomlOf(config, { settings: planned.settings, directory }),
    fieldOf: (key) => heldPointer(request, key),
    fork,
  };
}

async function parentTree(run: string, services: Services): Promise<Table> {
  const { config } = (await forkOf({ run }, services)).parent;
  return structuredClone(config) as unknown as Table;
}

function problemOf(type: ProblemType, errors: readonly ProblemError[]): Problem | null {
  return errors.length === 0 ? null : refusal(type, errors);
}

/** Without the tables whose id has no entry: they lack what the entry would say. */
function withoutUnknown(
  { tree, floats, unknown }: AppliedCatalogue,
): { tree: Table; floats: ReadonlySet<string> } {
  return {
    tree: withoutPaths(tree, unknown.map(({ path }) => path.at(-1) === "id" ? path.slice(0, -1) : path)),
    floats,
  };
}

/** The first class of refusals that the operator's catalogue causes; null when there is none. */
function catalogueRefusal(
  request: ConfigRequest,
  { declared, forms, applied }: {
    declared: ReturnType<typeof operatorsKeys>;
    forms: readonly string[];
    applied: AppliedCatalogue;
  },
): Problem | null {
  const entries = (findings: AppliedCatalogue["unknown"], code?: ProblemError["code"]) =>
    findings.map((finding) => ({ ...entryOf(finding, request), ...(code && { code }) }));
  const message = "must be the id of an entry of the server's catalogue: only the operator declares more";
  const operators = [
    ...entries(declared, "server_declared"),
    ...forms.map((pointer): ProblemError => ({ pointer, code: "server_declared", message })),
  ];
  return problemOf("server-declared", operators) ??
    problemOf("unknown-catalog-id", entries(applied.unknown, "unknown_catalog_id")) ??
    problemOf("invalid-request", entries(applied.beyond));
}

/** A file that a key names. */
interface NamedFile {
  key: string;
  /** As the client wrote it. */
  written: string;
  real: string;
}

/** The real paths of the files in a request. @throws {Problem} `not-found`, `forbidden-path` or `path_not_found`. */
async function realFiles(request: ConfigRequest, services: Services): Promise<NamedFile[]> {
  const problems: Problem[] = [], found: NamedFile[] = [];
  const roots = services.config.path_roots;
  for (const { path } of pathKeys(request.tree, "output")) {
    problems.push(forbiddenPath(pointerOf(request.placeOf(path))));
  }
  for (const { path, value: written } of pathKeys(request.tree, "input")) {
    const key = path.join("."), pointer = pointerOf(request.placeOf(path));
    try {
      const { file } = DATA_KEYS.includes(key)
        ? await clientData(written, { roots, pointer, datasets: services.datasets })
        : { file: await clientFile(written, { roots, pointer }) };
      found.push({ key, written, real: file.path });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problems.push(error);
    }
  }
  for (const type of ["not-found", "forbidden-path", "invalid-request"] as const) {
    const refused = problemOf(type, problems.filter((p) => p.type === type).flatMap(({ errors }) => errors));
    if (refused) throw refused;
  }
  return found;
}

/** A configuration with the real paths of its files. */
function placed(tree: Table, files: readonly NamedFile[]): Table {
  const copy = structuredClone(tree);
  for (const { key, real } of files) setKey(copy, key, real);
  return copy;
}

function setKey(tree: Table, key: string, value: unknown): void {
  const parts = key.split("."), last = parts.pop()!;
  let table = tree;
  for (const part of parts) table = (table[part] ??= {}) as Table;
  table[last] = value;
}

function tomlOf(
  config: Table,
  { settings, directory }: { settings: Record<string, unknown>; directory: string },
): string {
  const copy = JSON.parse(JSON.stringify(config)) as Table;
  for (const [key, value] of Object.entries(settings)) setKey(copy, key, value);
  const { run, output } = ownPlaces(directory);
  setKey(copy, "run.directory", run.directory);
  setKey(copy, "output.peft_dir", output.peft_dir);
  return stringify(copy);
}

/** The folder of a run that does not exist yet, for its plan. */
const NO_FOLDER = "/run";

interface PlanContext {
  request: ConfigRequest;
  services: Services;
  files: readonly NamedFile[];
  signal: AbortSignal;
  /** A refusal of a later class than what the files hold. */
  refused: Problem | null;
}

/** Plans in a job. With a refusal of a later class it only reads the files, and returns null. */
async function plan(config: Table, context: PlanContext): Promise<PlannedRequest | null> {
  const { request, services, files, signal, refused } = context;
  const { jobs } = services, { recipe } = request;
  const target = await planTarget(services, recipe?.limits ?? {});
  const text = tomlOf(config, { settings: {}, directory: NO_FOLDER });
  try {
    const answer = await jobs.run("plan_run", {
      ...{ text, path: `${NO_FOLDER}/run.toml`, target, files: files.map(({ real }) => real) },
      recipe: recipe && { allow: recipe.allow },
      files_only: refused !== null,
      observe_target_updates: services.config.observe_target_updates,
    }, signal);
    if ("refused" in answer) throw planProblem(answer.refused, context);
    return "planned" in answer ? answer.planned : null;
  } catch (error) {
    if (error instanceof ServiceError && error.details.limit !== undefined) {
      throw invalidRequest([{ pointer: "", code: "invalid_value", message: shown(error.message, files) }]);
    }
    throw error;
  }
}

const REFUSED_TYPES: Record<PlanRefusal["kind"], ProblemType> = {
  files: "invalid-request",
  opt_in: "invalid-request",
  memory: "insufficient-memory",
};

function planProblem({ kind, problems, meta }: PlanRefusal, { request, files }: PlanContext): Problem {
  const errors = problems.map(({ key, code, message }): ProblemError => ({
    pointer: key === "allow"
      ? "/allow"
      : kind === "memory"
      ? heldPointer(request, key)
      : pointerTo(request, key),
    code: kind === "opt_in" ? "needs_opt_in" : code,
    message: shown(message, files),
  }));
  const [first] = errors;
  return new Problem(REFUSED_TYPES[kind], first!.message, {
    errors,
    meta: JSON.parse(JSON.stringify(meta)),
  });
}

const pointerTo = (request: ConfigRequest, key: string) => pointerOf(request.placeOf(key.split(".")));

/** The field that sets a key; `""` when the request does not set it. */
function heldPointer(request: ConfigRequest, key: string): string {
  return valueAt(request.tree, key.split(".")) === undefined ? "" : pointerTo(request, key);
}

/** A message with paths as the client wrote them. */
function shown(message: string, files: readonly NamedFile[]): string {
  return files.reduce((text, { real, written }) => text.replaceAll(real, written), message);
}

function refuseForkChanges(
  fork: Fork,
  { config, request }: { config: Table; request: ConfigRequest },
): void {
  if (fork.refusal !== null) {
    throw refusal("conflict", [{ pointer: "", code: "conflict", message: fork.refusal }]);
  }
  const errors = forkChanges(fork.parent.config as unknown as Table, config).map((key): ProblemError => ({
    pointer: pointerOf(request.placeOf(key.split("."))),
    code: "conflict",
    message: "would change the training up to the checkpoint: a fork keeps it; start a new run instead",
  }));
  const refused = problemOf("conflict", errors);
  if (refused) throw refused;
}

function defaultName(tree: Table, algorithm: string): string {
  const run = tree.run as { name?: unknown } | undefined, model = tree.model as { path?: unknown };
  if (typeof run?.name === "string") return run.name;
  const path = String(model.path);
  return `${algorithm} ${basename(path, extname(path))}`;
}
