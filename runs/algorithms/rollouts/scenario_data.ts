/** Reads the scenarios of a run and checks that they can be rendered, attempted and graded. */

import { type BuiltToolHost, type ConfiguredWorld, configuredWorld } from "../../../agent/configured.ts";
import { checkCatalogs } from "../../../agent/environment/check_catalogs.ts";
import { withRecordedTools } from "../../../agent/recording/prepared_replay.ts";
import type { ResolvedConfig } from "../../../config/check/derive.ts";
import { systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { checkVerifiable, readScenarios, type Scenario } from "../../../data/scenario.ts";
import type { ModelParts } from "../../session/model_parts.ts";
import type { ReadDataOptions } from "../definition.ts";
import { counted } from "../../record/event_text.ts";
import { atKey } from "../at_key.ts";
import { checkTemplate } from "./template_check.ts";

/** Never aborted: the commands of a container engine have time limits of their own. */
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
  { recordings, updates = true, tool_hosts }: ReadDataOptions & { tool_hosts?: readonly BuiltToolHost[] } =
    {},
): Promise<ScenarioData> {
  const options = { clock: systemClock, workspaces: config.run.directory };
  const world = configuredWorld(config, options, recordings === undefined ? tool_hosts : [])!;
  try {
    // A replay starts nothing.
    if (recordings === undefined) await world.environments.check?.(NEVER);
    const environments = recordings === undefined
      ? world.environments
      : await withRecordedTools(world.environments, recordings);
    return await readChecked(config, { parts, world: { ...world, environments }, updates });
  } finally {
    await world.close();
  }
}

interface Checks {
  parts: ModelParts;
  world: ConfiguredWorld;
  updates: boolean;
}

async function readChecked(config: ResolvedConfig, checks: Checks): Promise<ScenarioData> {
  const { evaluation } = config, { scenarios: path, scenarios_per_update } = config.agent!;
  const { parts, world, updates } = checks;
  const scenarios = await readScenarios(path);
  await checkGraded(path, scenarios, world);
  if (updates && scenarios.length < scenarios_per_update) {
    throw new ServiceError(
      "config_invalid",
      `Cannot use ${path}: it has ${counted(scenarios.length, "scenario")}, fewer than ` +
        `agent.scenarios_per_update (${scenarios_per_update})`,
    );
  }
  await checkTemplate({ path, scenarios }, { config, parts, environments: world.environments });
  const heldout = evaluation
    ? await atKey("evaluation.data", readHeldout(evaluation.data, config, checks))
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

/** Checks that each scenario has its tools and may get a grade. */
async function checkGraded(
  path: string,
  scenarios: readonly Scenario[],
  { environments, graders }: ConfiguredWorld,
): Promise<void> {
  await checkCatalogs(path, scenarios, environments);
  const ungraded = scenarios.find((scenario) =>
    graders.every((grader) => grader.coverage(scenario) === "none")
  );
  if (!ungraded) return;
  throw new ServiceError(
    "data_invalid",
    `Cannot use ${path}:${ungraded.line}: nothing can grade scenario ${JSON.stringify(ungraded.id)}; ` +
      environments.grading_advice,
    { path, line: ungraded.line },
  );
}
