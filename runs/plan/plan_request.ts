/** Plans the run of a request: reads its files, checks which degradations it needs and may use, and fits its memory. */

import { stringify } from "smol-toml";
import { checkTree } from "../../config/check/check_tree.ts";
import { tokenBudget } from "../../agent/rollout/training_samples.ts";
import type { Degradation } from "../../config/check/recipe.ts";
import type { RunConfig } from "../../config/schema.ts";
import type { ConfigFacts, ResolvedConfig } from "../../config/check/derive.ts";
import { type LoadedConfig, parseRunConfig } from "../../config/check/load.ts";
import { templateVariables, trainingData } from "../../config/check/own_section.ts";
import type { ConfigProblem } from "../../config/text/problems.ts";
import { resolveLoaded } from "../../config/check/resolve.ts";
import { valueSources } from "../../config/check/sources.ts";
import { parseToml, setKey } from "../../config/text/toml_tree.ts";
import { assert, type ErrorRecord, errorRecord, ServiceError } from "../../core/errors.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { LineProblem } from "../../data/problems.ts";
import { keyOfComponent } from "../../trainer/engine/memory_advice.ts";
import { openGgufHeader } from "../../trainer/formats/gguf.ts";
import type { AlgorithmData } from "../algorithms/definition.ts";
import { checkFile } from "../algorithms/row_kind.ts";
import { algorithmOf } from "../algorithms/registry.ts";
import { readCheckpointRecord } from "../directory/checkpoint.ts";
import {
  changesOfFork,
  type ForkChanges,
  identityOf,
  inputFingerprints,
} from "../directory/config_identity.ts";
import { rescaledWarnings } from "../directory/fork.ts";
import type { PlanWarning } from "../record/warning.ts";
import { loadModelParts, type ModelParts } from "../session/model_parts.ts";
import {
  type AppliedLever,
  applyLevers,
  fitsBudget,
  fittingContext,
  type MeasureMemory,
  type MemoryBudget,
} from "./levers.ts";
import { memoryMeasure, memoryRefusal, type Plan, planOf, type PlanTarget } from "./plan.ts";
import { adapterShape } from "./prepare.ts";

/** A configuration to plan, as plain data. */
export interface PlanRequest {
  /** TOML with real paths, and with the operator's keys in place of catalogue ids. */
  text: string;
  /** The path that the configuration will have: its folder is the run's. */
  path: string;
  /** A recipe takes levers, and `allow` names those that may degrade the result; a configuration is planned as written. */
  recipe: { allow: readonly Degradation[] } | null;
  target: PlanTarget;
  /** The server's number of updates whose trajectory texts a run keeps. */
  observe_target_updates: number;
  /** Whether only the files are to be read, because the request is refused for another reason. */
  files_only: boolean;
  /** Null for a run of its own. */
  fork: {
    /** The folder of the checkpoint from which it starts. */
    checkpoint: string;
    /** The parent's values of keys that neither run was given, by dotted name. */
    inherits: Readonly<Record<string, unknown>>;
  } | null;
}

/** A request with the files that it names. */
export interface PlanJobRequest extends PlanRequest {
  files: readonly CheckedFile[];
}

/** A refusal at keys of the configuration. */
export interface PlanRefusal {
  /** `files`: what a named file holds; `opt_in`: a degradation that is not allowed; `memory`: it does not fit. */
  kind: "files" | "opt_in" | "memory";
  /** By dotted key; `allow` for a missing permission. */
  problems: { key: string; code: "invalid_value" | "out_of_range" | "missing_field"; message: string }[];
  /** The contract's `meta` of insufficient memory. */
  meta: Readonly<Record<string, unknown>>;
}

/** A plan, and what it changed of the configuration. */
export interface PlannedRequest {
  plan: Plan;
  /** Keys that levers, allowed degradations and the parent of a fork set, by dotted name. */
  settings: Record<string, unknown>;
  /** The keys that a fork changes and may not; null when its checkpoint cannot be read. Empty for a run of its own. */
  forbidden: readonly string[] | null;
}

/** `read`: the request asked only for a check of its files, and it found no problem. */
export type PlanAnswer = { planned: PlannedRequest } | { refused: PlanRefusal } | { read: true };

/** Plans a request. Reads the model's header and the data. @throws Only what is a fault of this program. */
export async function planRequest(request: PlanRequest): Promise<PlanAnswer> {
  if (request.files_only) return await readOnly(request.text);
  const loaded = parseRunConfig(request.text, { path: request.path });
  const read = await readFiles(loaded, request);
  if ("refused" in read) return read;
  const { config, parts, data, fork } = read, definition = algorithmOf(config);
  const missing = request.recipe && missingPermission(config, { parts, data, allow: request.recipe.allow });
  if (missing) return { refused: missing };
  using file = await openGgufHeader(config.model.path);
  const measure = memoryMeasure(file, definition, request.target.card);
  const fitted = fit(config, { request, measure });
  if ("refused" in fitted) return fitted;
  const { levers, warnings } = fitted, settings = { ...fork?.inherited, ...fitted.settings };
  const sources = { ...valueSources(loaded, config), ...derivedSources(settings) };
  const as_written = planOf(fitted.config, {
    ...{ parts, data, sources, target: request.target, memory: measure(fitted.config) },
  });
  const plan: Plan = {
    ...as_written,
    levers_applied: levers.map(({ lever }) => lever),
    levers: levers.map(({ lever, saved_bytes, time_factor }) => ({ lever, saved_bytes, time_factor })),
    warnings: [...warnings, ...rescaledWarnings(fork?.rescaled ?? []), ...as_written.warnings],
  };
  // The run's process does not know the server's number.
  const { observe } = plan.config, kept = observe ? { "observe.every": observe.every } : {};
  return { planned: { plan, settings: { ...settings, ...kept }, forbidden: fork?.forbidden ?? null } };
}

/** In what a run differs from its parent, and the parent's values that it takes over. */
interface ForkDifference extends ForkChanges {
  inherited: Readonly<Record<string, unknown>>;
}

interface ReadFiles {
  config: ResolvedConfig;
  parts: ModelParts;
  data: AlgorithmData;
  /** Null when the checkpoint cannot be read. */
  fork: ForkDifference | null;
}

/** Reads the files one after the other, so that a problem is reported at the key that names its file. */
async function readFiles(
  loaded: LoadedConfig,
  { observe_target_updates, fork: parent }: PlanRequest,
): Promise<ReadFiles | { refused: PlanRefusal }> {
  const { chat_template } = loaded.config.model, { init_adapter } = loaded.config.lora;
  let key = "model.path";
  try {
    const parts = await modelParts(loaded.config);
    key = "lora.init_adapter";
    const adapter = init_adapter === undefined ? {} : { init_adapter: await adapterShape(init_adapter) };
    key = "training.ctx";
    const facts = { path: loaded.path, observe_target_updates, ...parts, ...adapter };
    const { config, fork } = await resolveFork(loaded, { facts, parent });
    const definition = algorithmOf(config);
    key = trainingData(config).key;
    return { config, parts, fork, data: await definition.readData(config, parts) };
  } catch (error) {
    const record = errorRecord(error);
    if (!(error instanceof ServiceError) || record.code === "internal") throw error;
    const is_template = record.code === "template_failed" && chat_template !== undefined;
    const at = is_template ? "model.chat_template" : record.details.config_key as string | undefined ?? key;
    return { refused: { kind: "files", problems: problemsOf(record, at), meta: {} } };
  }
}

const modelParts = (config: RunConfig) =>
  loadModelParts(config.model, templateVariables(config), openGgufHeader);

const NO_FORK: ForkDifference = { forbidden: [], rescaled: [], inherited: {} };

/**
 * Resolves a configuration, and compares a fork's with the training of its checkpoint. What nobody set is the parent's,
 * so that it is no difference. A fork that is refused takes over nothing: what follows from its changes is not reported.
 */
async function resolveFork(
  loaded: LoadedConfig,
  { facts, parent }: { facts: ConfigFacts; parent: PlanRequest["fork"] },
): Promise<Pick<ReadFiles, "config" | "fork">> {
  const config = resolveLoaded(loaded, facts);
  if (!parent) return { config, fork: NO_FORK };
  const record = await readCheckpointRecord(parent.checkpoint);
  if (!record) return { config, fork: null };
  const compared = async (config: ResolvedConfig, inherited: ForkDifference["inherited"]) => {
    const changes = changesOfFork(record.config, identityOf(config, await inputFingerprints(config)));
    return { config, fork: { ...changes, inherited } };
  };
  const own = await compared(config, {}), { forbidden } = own.fork, { inherits } = parent;
  const set = forbidden.filter((key) => !Object.hasOwn(inherits, key));
  if (set.length > 0) return { config, fork: { ...own.fork, forbidden: set } };
  if (forbidden.length === 0) return own;
  return await compared(resolveLoaded(withValues(loaded, inherits), facts), inherits);
}

/** A configuration with further keys. */
function withValues({ text, path }: LoadedConfig, values: Readonly<Record<string, unknown>>): LoadedConfig {
  const toml = parseToml(text);
  assert("tree" in toml, "a loaded configuration is TOML");
  for (const [key, value] of Object.entries(values)) setKey(toml.tree, key, value);
  return parseRunConfig(stringify(toml.tree), { path });
}

/** Reads the files of a configuration that lacks what a catalogue would say. */
async function readOnly(text: string): Promise<PlanAnswer> {
  const toml = parseToml(text),
    config = "message" in toml ? null : checkTree(toml, { is_partial: true }).config;
  if (!config) return { read: true };
  const { evaluation, lora } = config, { rows } = algorithmOf(config);
  const { key: data_key, path: data } = trainingData(config);
  const steps: [key: string, read: () => Promise<unknown>][] = [
    ["model.path", () => modelParts(config)],
    ["lora.init_adapter", async () => lora.init_adapter && await adapterShape(lora.init_adapter)],
    [data_key, async () => data !== undefined && await checkFile(data, rows)],
    ["evaluation.data", async () => evaluation && await checkFile(evaluation.data, rows)],
  ];
  for (const [key, read] of steps) {
    try {
      await read();
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      return { refused: { kind: "files", problems: problemsOf(errorRecord(error), key), meta: {} } };
    }
  }
  return { read: true };
}

/** Problems of a configuration have keys of their own; any other failure, and each line, is at the key of its file. */
function problemsOf({ code, message, details }: ErrorRecord, key: string): PlanRefusal["problems"] {
  const lines = code === "data_invalid" ? details.problems as LineProblem[] | undefined : undefined;
  if (lines) return lines.map(({ message }) => ({ key, code: "invalid_value", message }));
  const problems = details.problems as ConfigProblem[] | undefined;
  if (!problems) return [{ key, code: "invalid_value", message }];
  return problems.map(({ key, code, message, hint }) => ({
    key,
    code: code === "out_of_range" || code === "missing_field" ? code : "invalid_value",
    message: hint === undefined ? message : `${message}; ${hint}`,
  }));
}

/** What the degradations of the result do, for one who is to allow them. */
const DEGRADATION_EFFECTS: Record<Degradation, string> = {
  truncate_context: "cuts or leaves out what is longer than training.ctx",
  exceed_train_context: "trains at positions that the model has not learned, where its answers may be worse",
};

/** The refusal of a recipe that needs degradations which it does not allow. */
function missingPermission(
  { training }: ResolvedConfig,
  { parts, data, allow }: { parts: ModelParts; data: AlgorithmData; allow: readonly Degradation[] },
): PlanRefusal | null {
  const problems: PlanRefusal["problems"] = [];
  const ask = (degradation: Degradation, why: string) => {
    if (allow.includes(degradation)) return;
    const message = `needs "${degradation}", which ${DEGRADATION_EFFECTS[degradation]}: ${why}`;
    problems.push({ key: "allow", code: "invalid_value", message });
  };
  if (training.ctx > parts.context_length) {
    ask(
      "exceed_train_context",
      `training.ctx is ${training.ctx}, and the model was trained for ${parts.context_length} tokens`,
    );
  }
  const cut = data.warnings.find(({ code }) => code === "rows_truncated");
  if (cut) ask("truncate_context", cut.message);
  return problems.length === 0 ? null : { kind: "opt_in", problems, meta: {} };
}

interface Fitted {
  config: ResolvedConfig;
  levers: AppliedLever[];
  settings: Record<string, unknown>;
  warnings: PlanWarning[];
}

/** Fits a recipe into the budget with levers, then, where it is allowed, with a shorter context. */
function fit(
  config: ResolvedConfig,
  { request, measure }: { request: PlanRequest; measure: MeasureMemory },
): Fitted | { refused: PlanRefusal } {
  const { recipe, target, fork } = request, budget: MemoryBudget = target;
  const as_written: Fitted = { config, levers: [], settings: {}, warnings: [] };
  if (fitsBudget(measure(config), budget)) return as_written;
  // A fork goes on with its parent's settings, which levers would change.
  if (!recipe || fork) return { refused: outOfMemory(config, { target, measure }) };
  const levered = applyLevers(config, { budget, measure });
  const fitted = withSettings(as_written, levered.config, levered.levers);
  if (fitsBudget(levered.plan, budget)) return fitted;
  const shorter = fittingContext(levered.config, { budget, measure });
  if (shorter && recipe.allow.includes("truncate_context")) return shortened(fitted, shorter);
  const refused = outOfMemory(levered.config, { target, measure });
  const meta = {
    ...refused.meta,
    levers_applied: levered.levers.map(({ lever }) => lever),
    unlocks: shorter && !recipe.allow.includes("truncate_context") ? ["truncate_context"] : [],
  };
  return { refused: { ...refused, meta } };
}

function withSettings(from: Fitted, config: ResolvedConfig, levers: AppliedLever[]): Fitted {
  const settings = Object.fromEntries(levers.map(({ setting: { key, value } }) => [key, value]));
  const warnings = levers.map(({ lever, saved_bytes, setting: { key } }): PlanWarning => ({
    code: "lever_applied",
    field: key,
    message: `${lever} saves ${saved_bytes} bytes`,
  }));
  return { config, levers, settings: { ...from.settings, ...settings }, warnings };
}

function shortened(
  { config, levers, settings, warnings }: Fitted,
  shorter: ResolvedConfig,
): Fitted {
  const { agent: before } = config, { training: { ctx, micro_batch_tokens }, agent } = shorter;
  const message = `training.ctx is ${ctx} in place of ${config.training.ctx}, so longer sequences are cut` +
    (agent
      ? `; the token budget of the loss is ${tokenBudget(agent)} in place of ${tokenBudget(before!)}`
      : "");
  return {
    config: shorter,
    levers,
    settings: {
      ...settings,
      "training.ctx": ctx,
      "training.micro_batch_tokens": micro_batch_tokens,
      ...(agent && { "agent.max_trajectory_tokens": agent.max_trajectory_tokens }),
    },
    warnings: [...warnings, { code: "context_truncated", field: "training.ctx", message }],
  };
}

function outOfMemory(
  config: ResolvedConfig,
  { target, measure }: { target: PlanTarget; measure: MeasureMemory },
): PlanRefusal {
  const { message, details } = memoryRefusal(config, { target, measure })!;
  const [dominant] = details.dominant_posts as { post: string }[];
  const key = keyOfComponent(dominant?.post ?? "weights");
  return { kind: "memory", problems: [{ key, code: "out_of_range", message }], meta: details };
}

function derivedSources(settings: Record<string, unknown>): Plan["sources"] {
  return Object.fromEntries(Object.keys(settings).map((key) => [key, "derived" as const]));
}
