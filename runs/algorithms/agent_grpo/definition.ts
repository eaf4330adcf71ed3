/** `algorithm = "agent_grpo"` as an entry of the registry. */

import { tokenBudget } from "../../../agent/rollout/training_samples.ts";
import { POLICY } from "../algorithm.ts";
import type { AlgorithmDefinition } from "../definition.ts";
import { readScenarioData } from "../rollouts/scenario_data.ts";
import { scenarioRows } from "../rollouts/scenario_rows.ts";
import { verifyWarnings } from "../verify_warnings.ts";
import { updateObserver } from "../rollouts/update_observer.ts";
import { AgentGrpo, keepsState, OBJECTIVE, REFERENCE } from "./agent_grpo.ts";
import { agentWarnings } from "./config_warnings.ts";
import { measureAgentUpdate } from "./measure_agent_update.ts";

export const agentGrpo: AlgorithmDefinition = {
  objective: OBJECTIVE,
  curve: "mean reward",
  step_size_keys: ["training.lr", "agent.max_update_kl"],
  rows: scenarioRows,
  sequences: ({ agent }) => ({ count: agent!.concurrent_rollouts, tokens: agent!.max_trajectory_tokens }),
  training(config) {
    const { agent } = config, has_bound = agent!.max_update_kl > 0;
    const { scenarios_per_update, group_size } = agent!;
    return {
      targets: scenarios_per_update * group_size * tokenBudget(agent!),
      divergence: has_bound,
      keeps_state: keepsState(agent!),
      // The bound keeps a copy of the policy from before each update.
      adapters: agentGrpo.adapters(config, "updates").length + Number(has_bound),
    };
  },
  adapters({ agent, lora }, used_by) {
    if (used_by === "evaluations") return [];
    const { kl_coefficient, kl_reference } = agent!;
    if (kl_coefficient === 0 || kl_reference !== "init_adapter") return [];
    return [{ adapter: REFERENCE, source: { type: "file", path: lora.init_adapter! } }];
  },
  measureUpdate: measureAgentUpdate,
  async readData(written, parts, options) {
    const data = await readScenarioData(written, parts, options);
    return {
      warnings: [...agentWarnings(written, parts.probe), ...verifyWarnings(written, data)],
      schedule: ({ agent }) => {
        const { updates, scenarios_per_update, group_size, max_trajectory_tokens } = agent!;
        return { updates, tokens_per_update: scenarios_per_update * group_size * max_trajectory_tokens };
      },
      createAlgorithm: (config, { session: { engine, agent }, clock }) => {
        const observe = updateObserver(config, { clock, tokenizer: parts.renderer.tokenizer });
        const shared = { config, agent, engine, adapter: POLICY, clock };
        return new AgentGrpo({ ...shared, ...data, ...(observe && { observe }) });
      },
    };
  },
};
