/** Everything that can be refused before a run begins: the model's header, the data, what of it can be graded. */

import { resolve } from "node:path";
import type { EnvironmentFactory } from "../agent/environment/environment.ts";
import { ObserveWriter } from "../agent/observe.ts";
import { checkVerifiable, readScenarios, type Scenario } from "../agent/scenario/scenario.ts";
import type { AdapterFacts, ResolvedConfig } from "../config/derive.ts";
import type { LoadedConfig } from "../config/load.ts";
import { LORA_TARGET_NAMES } from "../config/lora.ts";
import { resolveLoaded } from "../config/resolve.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";
import { readAdapter } from "../trainer/formats/adapter.ts";
import { AgentGrpo } from "./agent_grpo.ts";
import type { Algorithm } from "./algorithm.ts";
import { type Identity, identityOf, inputFingerprints } from "./config_identity.ts";
import { heldoutWarnings } from "./heldout_warnings.ts";
import { environmentsOf, loadModelParts, type ModelParts } from "./model_parts.ts";
import { withRealPaths } from "./places.ts";
import type { Session } from "./session.ts";
import { Sft } from "./sft.ts";
import { readSftRows, type SftData } from "./sft_rows.ts";
import { checkTemplate } from "./template_check.ts";
import { POLICY } from "./training_loop.ts";
import { configWarnings, type PlanWarning, type RunWarning } from "./warnings.ts";

/** What an algorithm learns from and is measured on. */
export type RunData =
  | { type: "scenarios"; train: Scenario[]; heldout: Scenario[] | null }
  | { type: "rows"; train: SftData; heldout: SftData | null };

export interface PreparedRun {
  config: ResolvedConfig;
  identity: Identity;
  /** For the run's start. */
  warnings: RunWarning[];
  createAlgorithm(session: Session, clock: Clock): Algorithm;
}

/**
 * Messages name the paths as they were written; the prepared configuration has real ones.
 *
 * @throws {ServiceError} `config_invalid`, `data_invalid`, `format_invalid`, `template_failed`, `not_built`.
 */
export async function prepareRun(loaded: LoadedConfig): Promise<PreparedRun> {
  const parts = await loadModelParts(loaded.config);
  const { init_adapter } = loaded.config.lora;
  const written = resolveLoaded(loaded, {
    path: resolve(loaded.path),
    ...parts,
    ...(init_adapter !== undefined && { init_adapter: await adapterFacts(init_adapter) }),
  });
  const data = await readData(written, parts);
  const config = await withRealPaths(written);
  return {
    config,
    identity: identityOf(config, await inputFingerprints(config)),
    warnings: [
      ...configWarnings(written, parts),
      ...dataWarnings(data),
      ...await heldoutWarnings(config),
    ],
    createAlgorithm: (session, clock) => createAlgorithm(config, data, { session, clock, parts }),
  };
}

async function adapterFacts(path: string): Promise<AdapterFacts> {
  const { rank, alpha, targets } = await readAdapter(path);
  return { rank, alpha, targets: targets.length === LORA_TARGET_NAMES.length ? "all" : targets };
}

function createAlgorithm(
  config: ResolvedConfig,
  data: RunData,
  { session: { engine, agent }, clock, parts }: { session: Session; clock: Clock; parts: ModelParts },
): Algorithm {
  const shared = { config, engine, adapter: POLICY, clock };
  if (data.type === "rows") return new Sft({ ...shared, data: data.train, heldout: data.heldout });
  const { observe } = config;
  const { tokenizer } = parts.renderer;
  let writer: Promise<ObserveWriter> | null = null;
  return new AgentGrpo({
    ...shared,
    agent,
    scenarios: data.train,
    heldout: data.heldout,
    ...(observe && {
      observe: async (update, groups, metrics) => {
        writer ??= ObserveWriter.open({
          ...observe,
          updates: config.agent!.updates,
          clock,
          tokenText: (id) => tokenizer.decode([id], { special: true }),
        });
        await (await writer).write(update, groups, metrics);
      },
    }),
  });
}

async function readData(config: ResolvedConfig, parts: ModelParts): Promise<RunData> {
  const { agent, evaluation, sft, training } = config;
  const max = evaluation?.max_examples;
  if (sft && config.run.algorithm === "sft") {
    const options = {
      renderer: parts.renderer,
      train_on: sft.train_on,
      variables: parts.variables,
      ctx: training.ctx,
    };
    const train = await readSftRows(sft.data, options);
    const heldout = evaluation
      ? await readSftRows(evaluation.data, { ...options, ...(max !== undefined && { max_rows: max }) })
      : null;
    return { type: "rows", train, heldout };
  }
  const environments = environmentsOf(config, { clock: systemClock, workspaces: config.run.directory })!;
  const train = await readScenarios(agent!.scenarios);
  checkTraining(train, { config, environments });
  checkTemplate({ path: agent!.scenarios, scenarios: train }, { config, parts, environments });
  const heldout = evaluation ? await readScenarios(evaluation.data) : null;
  if (heldout) {
    checkCatalogs(evaluation!.data, heldout, environments);
    checkVerifiable(evaluation!.data, heldout, (scenario) => environments.canVerify(scenario));
    checkTemplate({ path: evaluation!.data, scenarios: heldout }, { config, parts, environments });
  }
  return { type: "scenarios", train, heldout };
}

/** Scenarios must be enough for an update, have tools, and be gradable by something. */
function checkTraining(
  scenarios: readonly Scenario[],
  { config, environments }: { config: ResolvedConfig; environments: EnvironmentFactory },
): void {
  const { scenarios: path, scenarios_per_update } = config.agent!;
  if (scenarios.length < scenarios_per_update) {
    throw new ServiceError(
      "config_invalid",
      `Cannot train on ${path}: it has ${scenarios.length} scenarios, fewer than agent.scenarios_per_update ` +
        `(${scenarios_per_update})`,
    );
  }
  checkCatalogs(path, scenarios, environments);
  if (environments.type === "http") return;
  const ungraded = scenarios.find((scenario) => !environments.canVerify(scenario));
  if (!ungraded) return;
  throw new ServiceError(
    "data_invalid",
    `Cannot train on ${path}:${ungraded.line}: nothing can grade scenario ${JSON.stringify(ungraded.id)}; ` +
      "give it metadata.env.verify",
    { path, line: ungraded.line },
  );
}

/** Every scenario must get its tools. @throws {ServiceError} `data_invalid`, `not_built`, with file and line. */
function checkCatalogs(
  path: string,
  scenarios: readonly Scenario[],
  environments: EnvironmentFactory,
): void {
  for (const scenario of scenarios) {
    try {
      environments.catalog(scenario);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      const { id, line } = scenario;
      const reason = error.details.reason ?? error.message;
      const message = `Cannot give tools to ${path}:${line}, scenario ${JSON.stringify(id)}: ${reason}`;
      throw new ServiceError(error.code, message, { path, line }, { cause: error });
    }
  }
}

function dataWarnings(data: RunData): PlanWarning[] {
  if (data.type === "scenarios") return [];
  const { train, heldout } = data;
  return [
    ...truncationWarnings(train, "rows of [sft]"),
    ...truncationWarnings(heldout, "rows of [evaluation]"),
  ];
}

function truncationWarnings(data: SftData | null, rows: string): PlanWarning[] {
  if (!data || data.truncated.length === 0) return [];
  const { truncated } = data;
  const message =
    `${truncated.length} of ${data.rows} ${rows} are longer than training.ctx and were cut, the first in ` +
    `line ${truncated[0]}`;
  return [{ code: "rows_truncated", field: "training.ctx", message }];
}
