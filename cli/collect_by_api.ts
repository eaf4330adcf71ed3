/** Attempts scenarios with a hosted model, for `svc collect --api`. No model is loaded, and no device is used. */

import { resolve } from "node:path";
import { configuredWorld } from "../agent/configured.ts";
import { checkCatalogs } from "../agent/environment/check_catalogs.ts";
import { type AskPolicy, hostedGroups } from "../agent/rollout/hosted_attempts.ts";
import { resolvePaths } from "../config/check/derive.ts";
import { DEFAULT_CTX_CAP } from "../config/sections/defaults.ts";
import { MAX_REQUESTS_AT_ONCE } from "../core/chat_api/chat_client.ts";
import { type Clock, systemClock } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";
import { readScenarios, type Scenario } from "../data/scenario.ts";
import { verifyWarnings } from "../runs/algorithms/verify_warnings.ts";
import type { CollectedGroup, CollectOptions } from "./context.ts";
import { passMessages } from "./interruptible.ts";
import { hostedModel } from "./hosted_model.ts";
import { openScratchFolder } from "./scratch_folder.ts";

const DOING = "collect with --api";

/**
 * Attempts the scenarios of `[agent]` with the model of `[agent.collect_api]`; the environment alone grades.
 *
 * @throws {ServiceError} `config_invalid`; `data_invalid` for a scenario that the environment cannot grade; `model_failed`
 * when the model does not answer.
 */
export async function* collectByApi(
  { loaded, k, limit, signal, ended, warn, tell }: CollectOptions,
  clock: Clock = systemClock,
): AsyncGenerator<CollectedGroup, void> {
  const config = resolvePaths(loaded.config, resolve(loaded.path)), agent = config.agent!;
  const { seed } = config.run;
  const model = hostedModel(agent, "collect_api", { seed, clock, doing: DOING });
  const scenarios = (await readScenarios(agent.scenarios)).slice(0, limit ?? Infinity);
  for (const warning of verifyWarnings({ agent }, { scenarios, heldout: null })) warn(warning);
  const scratch = await openScratchFolder();
  try {
    // Graders besides the environment are not asked, so they are not opened.
    const { judge: _judge, reward: _reward, ...own } = agent;
    const world = configuredWorld({ ...config, agent: own }, { clock, workspaces: scratch.path })!;
    const told = passMessages(world.messages, tell);
    try {
      const { environments } = world;
      for (const scenario of scenarios) {
        if (environments.coverage(scenario) === "none") throw ungradable(agent.scenarios, scenario);
      }
      await checkCatalogs(agent.scenarios, scenarios, environments);
      const ask: AskPolicy = (question, inner) =>
        model.ask({ ...question, temperature: agent.temperature }, inner);
      const { max_turns, max_new_tokens_per_turn, max_rollout_secs, end_on_no_tool_call } = agent;
      // No model is read, which could have a smaller context.
      const { max_trajectory_tokens = config.training.ctx ?? DEFAULT_CTX_CAP, system_suffix = "" } = agent;
      const groups = hostedGroups({
        ...{ ask, scenarios, group_size: k, concurrent_attempts: MAX_REQUESTS_AT_ONCE },
        settings: {
          ...{ max_turns, max_new_tokens_per_turn, max_trajectory_tokens },
          ...{ max_rollout_secs, end_on_no_tool_call, system_suffix },
        },
        ...{ seed, environment: environments, clock, signal },
      });
      const total = scenarios.length * k;
      ended({ done: 0, total });
      for await (const item of groups) {
        if (typeof item === "number") ended({ done: item, total });
        else yield { scenario: scenarios[item.group]!, group: item, trainsSampled: null };
      }
    } finally {
      await world.close();
      await told;
    }
  } finally {
    await scratch.close();
  }
}

function ungradable(path: string, { id, line }: Scenario): ServiceError {
  const message =
    `Cannot ${DOING}: the environment alone grades a hosted model, and it cannot grade ${path}:${line}, ` +
    `scenario ${JSON.stringify(id)}; give it metadata.env.verify, or leave it out`;
  return new ServiceError("data_invalid", message, { path, line });
}
