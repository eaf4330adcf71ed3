/** Reads the scenarios of a run and checks that they can be rendered, attempted and graded. */

import { type BuiltToolHost, type ConfiguredWorld, configuredWorld } from "../../../agent/configured.ts";
import type { EnvironmentFactory } from "../../../agent/environment/environment.ts";
import { withRecordedTools } from "../../../agent/recording/prepared_replay.ts";
import type { ResolvedConfig } from "../../../config/check/derive.ts";
import { systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { checkVerifiable, readScenarios, type Scenario } from "../../../data/scenario.ts";
import type { ModelParts } from "../../session/model_parts.ts";
import type { ReadDataOptions } from "../definition.ts";
import { atKey } from "../at_key.ts";
import { checkTemplate } from "./template_check.ts";

/** Never aborted: every wait in these checks has its own time limit. */
const NEVER = new AbortController().signal;

export interface ScenarioData {
  scenarios: Scenario[];
  /** Null without `[evaluation]`. */
  heldout: Scenario[] | null;
}

/**
 * Reads the scenarios of training and evaluation.
 *
 * @param options.tool_hosts As for {@link configuredWorld}.
 * @param options.recordings The folder of the recordings that the run replays: tools are the recorded ones.
 * @throws {ServiceError} `config_invalid` for too few, `data_invalid` or `not_built` with file and line,
 * `template_failed`; `environment_failed` for a tool host that cannot list its tools; `infrastructure_failed` for
 * containers that cannot start.
 */
export async function readScenarioData(
  config: ResolvedConfig,
  parts: ModelParts,
  { recordings, tool_hosts }: ReadDataOptions & { tool_hosts?: readonly BuiltToolHost[] } = {},
): Promise<ScenarioData> {
  const options = { clock: systemClock, workspaces: config.run.directory };
  const world = configuredWorld(config, options, recordings === undefined ? tool_hosts : [])!;
  try {
    // A replay starts nothing.
    if (recordings === undefined) await world.environments.check?.(NEVER);
    const environments = recordings === undefined
      ? world.environments
      : await withRecordedTools(world.environments, recordings);
    return await readChecked(config, { parts, world: { ...world, environments } });
  } finally {
    await world.close();
  }
}

interface Checks {
  parts: ModelParts;
  world: ConfiguredWorld;
}

async function readChecked(config: ResolvedConfig, { parts, world }: Checks): Promise<ScenarioData> {
  const { evaluation } = config, { scenarios: path } = config.agent!;
  const scenarios = await readScenarios(path);
  await checkTraining(scenarios, { config, world });
  await checkTemplate({ path, scenarios }, { config, parts, environments: world.environments });
  const heldout = evaluation
    ? await atKey("evaluation.data", readHeldout(evaluation.data, config, { parts, world }))
    : null;
  return { scenarios, heldout };
}

/** Scenarios that the environment can verify. */
async function readHeldout(
  path: string,
  config: ResolvedConfig,
  { parts, world: { environments } }: Checks,
): Promise<Scenario[]> {
  const scenarios = await readScenarios(path);
  await checkCatalogs(path, scenarios, environments);
  checkVerifiable(path, scenarios, (scenario) => {
    return environments.coverage(scenario) === "none" ? environments.grading_advice : null;
  });
  await checkTemplate({ path, scenarios }, { config, parts, environments });
  return scenarios;
}

/** Checks that there are enough scenarios for an update, that each has its tools, and that each may get a grade. */
async function checkTraining(
  scenarios: readonly Scenario[],
  { config, world: { environments, graders } }: { config: ResolvedConfig; world: ConfiguredWorld },
): Promise<void> {
  const { scenarios: path, scenarios_per_update } = config.agent!;
  if (scenarios.length < scenarios_per_update) {
    throw new ServiceError(
      "config_invalid",
      `Cannot train on ${path}: it has ${scenarios.length} scenarios, fewer than agent.scenarios_per_update ` +
        `(${scenarios_per_update})`,
    );
  }
  await checkCatalogs(path, scenarios, environments);
  const ungraded = scenarios.find((scenario) =>
    graders.every((grader) => grader.coverage(scenario) === "none")
  );
  if (!ungraded) return;
  throw new ServiceError(
    "data_invalid",
    `Cannot train on ${path}:${ungraded.line}: nothing can grade scenario ${JSON.stringify(ungraded.id)}; ` +
      environments.grading_advice,
    { path, line: ungraded.line },
  );
}

/**
 * Checks that every scenario gets its tools.
 *
 * @throws {ServiceError} That of the catalogue, with file and line; that of a host which cannot list its tools.
 */
async function checkCatalogs(
  path: string,
  scenarios: readonly Scenario[],
  environments: EnvironmentFactory,
): Promise<void> {
  for (const scenario of scenarios) {
    try {
      await environments.catalog(scenario, NEVER);
    } catch (error) {
      // A host that cannot list its tools is no fault of the scenario.
      if (!(error instanceof ServiceError) || error.code === "environment_failed") throw error;
      const { id, line } = scenario;
      const reason = error.details.reason ?? error.message;
      const message = `Cannot give tools to ${path}:${line}, scenario ${JSON.stringify(id)}: ${reason}`;
      throw new ServiceError(error.code, message, { path, line }, { cause: error });
    }
  }
}
