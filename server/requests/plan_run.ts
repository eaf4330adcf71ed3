/** The checks of a plan or a run in the contract's order, and the plan. */

import { basename, extname, relative } from "node:path";
import { stringify } from "smol-toml";
import { algorithmKeys, DATA_KEYS } from "../../config/algorithms.ts";
import { type AppliedCatalogue, applyCatalogue } from "../../config/check/catalogue.ts";
import { checkTree } from "../../config/check/check_tree.ts";
import type { Finding } from "../../config/check/issues.ts";
import { operatorsKeys, pathKeys, withoutCatalogue, withoutPaths } from "../../config/check/request_keys.ts";
import { checkpointUpdate } from "../../runs/directory/checkpoint.ts";
import type { Plan } from "../../runs/plan/plan.ts";
import { isDatasetId } from "../../runs/datasets/dataset_store.ts";
import { setKey, type Table, valueAt } from "../../config/text/toml_tree.ts";
import { assert, type ErrorCode, ServiceError } from "../../core/errors.ts";
import { isInside } from "../../core/real_path.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { PlanJobRequest, PlannedRequest, PlanRefusal } from "../../runs/plan/plan_request.ts";
import { pointerOf } from "../http/issues.ts";
import { clientData, clientFile, forbiddenPath, realRoots } from "../access/paths.ts";
import { invalidRequest, Problem, type ProblemError, requestProblem } from "../http/problems.ts";
import type { ProblemType } from "../http/problem_types.ts";
import { ownPlaces } from "../resources/run_document.ts";
import type { Services } from "../routing/services.ts";
import { type ConfigRequest, conflictsOf, problemEntry } from "./config_request.ts";
import { findFork, type Fork, forkSources, inheritedValues } from "./fork_request.ts";
import { publicPlan } from "./public_plan.ts";
import { planTarget } from "./plan_target.ts";

/** A planned run, ready to be created. */
export interface PlannedRunRequest {
  name: string;
  algorithm: string;
  planned: PlannedRequest;
  /** The configuration for the run's process in a folder. */
  processConfig: (directory: string) => string;
  /** The field of the request that sets a key; `""` when none does. */
  fieldOf: (key: string) => string;
  /** A failure of a file that the request names, as a refusal of its field; null when the failure names none. */
  fileProblem: (failure: ServiceError) => Problem | null;
  /** Degradations, not allowed yet, with which the run would fit into this much device memory. */
  unlocksWithin: (vram_bytes: number) => Promise<readonly string[]>;
  fork: Fork | null;
}

/**
 * Checks a request whose form is valid, and plans it. Nothing is created.
 *
 * @throws {Problem} Of the first class of checks that fails, with all of its problems.
 */
export async function planRunRequest(
  request: ConfigRequest,
  { services, signal }: { services: Services; signal: AbortSignal },
): Promise<PlannedRunRequest> {
  const { fork, files } = await namedResources(request, services);
  const declared = operatorsKeys(request.tree).map(({ path }) => path);
  const known = { tree: withoutPaths(request.tree, declared), floats: request.floats };
  const applied = applyCatalogue(known, services.config);
  const refused = catalogueRefusal(request, applied) ?? problemOf("conflict", conflictsOf(request));
  // The checks of the catalogue would be incomplete then.
  const config = placed(refused ? withoutCatalogue(known.tree) : applied.tree, files);
  const context = { request, services, files, signal, refused, fork };
  const asked = await jobRequest(config, context), planned = await plan(asked, context);
  if (refused) throw refused;
  assert(planned !== null, "a request without a refusal is planned");
  if (fork) refuseFork(fork, { forbidden: planned.forbidden, request, planned: planned.plan });
  const shown = publicPlan(planned.plan, { written: request.tree });
  const sources = fork
    ? forkSources(shown.sources, { parent: fork.parent.sources, sets: request.sets })
    : shown.sources;
  const algorithm = planned.plan.config.run.algorithm;
  const data_dir = await realRoots([services.config.data_dir]);
  return {
    name: request.name ?? defaultName(request.tree, algorithm),
    algorithm,
    planned: { ...planned, plan: { ...shown, sources } },
    processConfig: (directory) =>
      tomlOf(placed(config, files, (real) => movable(real, { directory, data_dir })), planned.settings),
    fieldOf: (key) => heldPointer(request, key),
    fileProblem: (failure) => fileProblem(failure, context),
    unlocksWithin: async (vram_bytes) => {
      const smaller = { ...asked, target: { ...asked.target, vram_bytes } };
      const answer = await services.jobs.run("plan_run", smaller, signal);
      return "refused" in answer ? (answer.refused.meta.unlocks ?? []) as string[] : [];
    },
    fork,
  };
}

function problemOf(type: ProblemType, errors: readonly ProblemError[]): Problem | null {
  return errors.length === 0 ? null : requestProblem(type, errors);
}

/** The first class of refusals that the operator's catalogue causes; null when there is none. */
function catalogueRefusal(request: ConfigRequest, applied: AppliedCatalogue): Problem | null {
  const entries = (findings: readonly Finding[], code?: ProblemError["code"]) =>
    findings.map((finding) => ({ ...problemEntry(finding, request), ...(code && { code }) }));
  const message =
    "must be the id of an entry of the server's catalogue: only the operator may declare other keys";
  const declared = [
    ...entries([...operatorsKeys(request.tree), ...applied.declared], "server_declared"),
    ...request.forms.map(({ place }): ProblemError => ({
      ...{ pointer: pointerOf(place), code: "server_declared", message },
    })),
  ];
  return problemOf("server-declared", declared) ??
    problemOf("unknown-catalog-id", entries(applied.unknown, "unknown_catalog_id")) ??
    problemOf("invalid-request", entries([...applied.beyond, ...checkTree(applied).findings]));
}

/** A file that a key names. */
interface NamedFile {
  key: string;
  /** As the client wrote it. */
  written: string;
  real: string;
  file: CheckedFile;
}

/** Protects the datasets that a request names from being deleted, until it is disposed. */
export function holdDatasets({ tree }: ConfigRequest, { datasets }: Pick<Services, "datasets">): Disposable {
  return datasets.hold(pathKeys(tree, "input").map(({ value }) => value).filter(isDatasetId));
}

/** The resources that a request names. @throws {Problem} `not-found`, `forbidden-path` or `path_not_found`. */
async function namedResources(
  request: ConfigRequest,
  services: Services,
): Promise<{ fork: Fork | null; files: NamedFile[] }> {
  const problems: Problem[] = [], found: NamedFile[] = [];
  const roots = services.config.path_roots;
  const attempt = async <T>(work: Promise<T>): Promise<T | null> => {
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      problems.push(error);
      return null;
    }
  };
  const fork = request.fork_from && await attempt(findFork(request.fork_from, services));
  for (const { path } of pathKeys(request.tree, "output")) {
    problems.push(forbiddenPath(pointerOf(request.placeOf(path))));
  }
  for (const { path, value: written } of pathKeys(request.tree, "input")) {
    const key = path.join("."), pointer = pointerOf(request.placeOf(path));
    const named = await attempt<{ file: CheckedFile }>(
      DATA_KEYS.includes(key)
        ? clientData(written, { roots, pointer, datasets: services.datasets })
        : clientFile(written, { roots, pointer }).then((file) => ({ file })),
    );
    if (named) found.push({ key, written, real: named.file.path, file: named.file });
  }
  for (const type of ["not-found", "forbidden-path", "invalid-request"] as const) {
    const refused = problemOf(type, problems.filter((p) => p.type === type).flatMap(({ errors }) => errors));
    if (refused) throw refused;
  }
  return { fork, files: found };
}

/** A configuration with the real paths of its files, or with what stands for them. */
function placed(
  tree: Table,
  files: readonly NamedFile[],
  pathFor: (real: string) => string = (real) => real,
): Table {
  const copy = structuredClone(tree);
  for (const { key, real } of files) setKey(copy, key, pathFor(real));
  return copy;
}

/**
 * A path in the configuration of a folder: relative when both lie in `data_dir`, so that `data_dir` can be moved.
 *
 * @param at.data_dir Its real path; none when it does not exist.
 */
function movable(path: string, { directory, data_dir }: { directory: string; data_dir: string[] }): string {
  return [path, directory].every((at) => isInside(at, data_dir)) ? relative(directory, path) : path;
}

/** The text of a configuration in its run's folder. */
function tomlOf(config: Table, settings: Record<string, unknown> = {}): string {
  const copy = JSON.parse(JSON.stringify(config)) as Table;
  for (const [key, value] of Object.entries(settings)) setKey(copy, key, value);
  const { run, output } = ownPlaces(".");
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
  /** A refusal of a later class than the contents of files. */
  refused: Problem | null;
  fork: Fork | null;
}

/** The input of the planning job. With a refusal of a later class the job only reads the files. */
async function jobRequest(config: Table, context: PlanContext): Promise<PlanJobRequest> {
  const { request, services, files, refused, fork } = context, { recipe } = request;
  const device = valueAt(config, ["model", "device"]);
  const target = await planTarget(services, recipe?.limits ?? {}, device === "software");
  const { software } = target.card.facts;
  if (device === "gpu" && software || device === "software" && !software) {
    const missing = software ? "GPU" : "software adapter", other = software ? "software" : "gpu";
    throw invalidRequest([{
      pointer: pointerTo(request, "model.device"),
      code: "invalid_value",
      message: `This machine has no ${missing}; set model.device to "auto" or "${other}"`,
    }]);
  }
  const text = tomlOf(config);
  const parent = fork && fork.parent.checkpoint !== "" ? fork.parent : null;
  const inherits = parent ? inheritedValues(parent, request.sets) : {};
  return {
    ...{ text, path: `${NO_FOLDER}/run.toml`, target, files: files.map(({ file }) => file) },
    fork: parent && { checkpoint: parent.directory, inherits },
    recipe: recipe && { allow: recipe.allow },
    files_only: refused !== null,
    observe_target_updates: services.config.observe_target_updates,
  };
}

/** Plans in a job; null when the job only reads the files. */
async function plan(asked: PlanJobRequest, context: PlanContext): Promise<PlannedRequest | null> {
  const { services, files, signal } = context;
  try {
    const answer = await services.jobs.run("plan_run", asked, signal);
    if ("refused" in answer) throw planProblem(answer.refused, context);
    return "planned" in answer ? answer.planned : null;
  } catch (error) {
    if (error instanceof ServiceError && error.details.limit !== undefined) {
      throw invalidRequest([{ pointer: "", code: "invalid_value", message: shown(error.message, files) }]);
    }
    throw error;
  }
}

/** Failures of a file that a run reads. */
const OF_A_FILE: readonly ErrorCode[] = [
  "path_not_found",
  "format_invalid",
  "data_invalid",
  "template_failed",
  "not_built",
];

function fileProblem(
  { code, message, details }: ServiceError,
  { request, files }: PlanContext,
): Problem | null {
  const named = files.find(({ real }) => real === details.path);
  if (!named || !OF_A_FILE.includes(code)) return null;
  return invalidRequest([{
    pointer: pointerTo(request, named.key),
    code: code === "path_not_found" ? code : "invalid_value",
    message: shown(message, files),
  }]);
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

/**
 * Refuses a fork when its parent's state does not allow one, when it changes fixed keys, or when it sets a number of
 * updates that its checkpoint has already. @throws {Problem} `conflict`.
 */
function refuseFork(
  { parent, refusal: state }: Fork,
  { forbidden, request, planned }: {
    forbidden: readonly string[] | null;
    request: ConfigRequest;
    planned: Plan;
  },
): void {
  const entry = (pointer: string, message: string): ProblemError => ({ pointer, code: "conflict", message });
  const at = (key: string, message: string): ProblemError => ({
    ...problemEntry({ path: key.split("."), code: "invalid_value", message }, request),
    code: "conflict",
  });
  const changes = (forbidden ?? []).map((key) => at(key, changeText(key)));
  const { algorithm } = parent.config.run, { updates_key } = algorithmKeys(algorithm);
  const asked = request.recipe?.algorithm ?? algorithm,
    updates = valueAt(planned.config, updates_key.split("."));
  const done = parent.checkpoint === "" ? 0 : checkpointUpdate(parent.checkpoint);
  const is_short = typeof updates === "number" && updates <= done && request.sets(updates_key.split("."));
  const damaged = forbidden === null
    ? [entry("/fork_from/run", `cannot be forked: its checkpoint ${parent.checkpoint} is damaged`)]
    : [];
  const refused = problemOf("conflict", [
    ...(state === null ? [] : [entry("", state)]),
    ...damaged,
    ...(asked === algorithm ? [] : [entry("/recipe", changeText("run.algorithm"))]),
    ...changes,
    ...(is_short ? [at(updates_key, `must be above ${done}, the updates of its checkpoint`)] : []),
  ]);
  if (refused) throw refused;
}

const changeText = (key: string) =>
  `would change the training up to the checkpoint: ${key}, or what the file holds, is not the parent's; a fork keeps ` +
  "it, so start a new run instead";

function defaultName(tree: Table, algorithm: string): string {
  const run = tree.run as { name?: unknown } | undefined, model = tree.model as { path?: unknown };
  if (typeof run?.name === "string") return run.name;
  const path = String(model.path);
  return `${algorithm} ${basename(path, extname(path))}`;
}
