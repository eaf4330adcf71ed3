/** Rules about several keys together. */

import { algorithmKeys, ALGORITHMS } from "../algorithms.ts";
import { leastMicroBatchTokens } from "./derive.ts";
import { ENVIRONMENT_KINDS, environmentProblems } from "../environments.ts";
import { REWARD_SOURCES } from "../sections/agent.ts";
import { ENVIRONMENT_TYPES } from "../sections/environment.ts";
import { judgeProblems } from "../sections/judge.ts";
import { hasCredentials } from "../sections/fields.ts";
import { hasOnePlace, urlProblem } from "../sections/mcp.ts";
import type { Finding } from "./issues.ts";
import type { AgentConfig, RunConfig } from "../schema.ts";
import { toolsetProblems } from "./toolset_rules.ts";
import { valueAt } from "../text/toml_tree.ts";

interface Broken {
  key: string;
  message: string;
  missing?: true;
  hint?: string;
}

type McpServerConfig = AgentConfig["mcp_servers"][number];

interface Rule {
  /** The keys that the rule reads; `*` is any index. The rule is skipped when one of them is invalid. */
  keys: string[];
  check(config: RunConfig): Broken[] | Broken | null | false | undefined;
}

const environmentKey = (key: string) => `agent.environment.${key}`;

const REWARD_KEYS = REWARD_SOURCES.map((source) => `agent.${source}`);

const RULES: readonly Rule[] = [
  ...ALGORITHMS.map((algorithm): Rule => {
    const { section } = algorithmKeys(algorithm);
    return {
      keys: ["run.algorithm", section],
      check: ({ run, ...sections }) =>
        run.algorithm === algorithm && sections[section] === undefined &&
        { key: section, message: `is missing: algorithm "${algorithm}" needs it`, missing: true },
    };
  }),
  ...ALGORITHMS.flatMap((algorithm) =>
    Object.entries(algorithmKeys(algorithm).fixed).map(([key, { value, ...broken }]): Rule => ({
      keys: ["run.algorithm", key],
      check(config) {
        const given = valueAt(config, key.split("."));
        return config.run.algorithm === algorithm && given !== undefined && given !== value &&
          { key, ...broken };
      },
    }))
  ),
  {
    keys: ["run.algorithm"],
    check(config) {
      const { algorithm } = config.run;
      return Object.entries(algorithmKeys(algorithm).unused).filter(([key, { value }]) => {
        const given = valueAt(config, key.split("."));
        return given !== undefined && given !== value;
      }).map(([key, { hint }]) => ({ key, hint, message: `has no meaning for ${algorithm}` }));
    },
  },
  {
    keys: ["lora.targets"],
    check: ({ lora: { targets } }) =>
      targets === "all"
        ? null
        : targets.flatMap((target, i) =>
          targets.indexOf(target) < i
            ? [{ key: `lora.targets.${i}`, message: `names "${target}" again`, hint: "name each layer once" }]
            : []
        ),
  },
  {
    keys: ["run.algorithm", "training.ctx", "training.micro_batch_tokens"],
    check: ({ run, training: { ctx, micro_batch_tokens } }) => {
      if (ctx === undefined || micro_batch_tokens === undefined) return null;
      const least = leastMicroBatchTokens(run.algorithm, ctx);
      const { length } = algorithmKeys(run.algorithm).micro_batch;
      return micro_batch_tokens < least &&
        { key: "training.micro_batch_tokens", message: `must be at least ${length} (${least})` };
    },
  },
  {
    keys: ["training.ctx", "agent.max_trajectory_tokens"],
    check: ({ training: { ctx }, agent }) =>
      ctx !== undefined && (agent?.max_trajectory_tokens ?? 0) > ctx &&
      { key: "agent.max_trajectory_tokens", message: `must be at most training.ctx (${ctx})` },
  },
  {
    keys: ["agent.optimizer_steps_per_update", "agent.scenarios_per_update"],
    check: ({ agent }) =>
      agent !== undefined && agent.optimizer_steps_per_update > agent.scenarios_per_update && {
        key: "agent.optimizer_steps_per_update",
        message:
          `must be at most scenarios_per_update (${agent.scenarios_per_update}): a group is never split`,
      },
  },
  {
    keys: ["agent.kl_reference", "lora.init_adapter"],
    check: ({ agent, lora }) =>
      agent?.kl_reference === "init_adapter" && lora.init_adapter === undefined &&
      { key: "agent.kl_reference", message: 'must be "base" without lora.init_adapter' },
  },
  {
    keys: ["run.algorithm", ...REWARD_KEYS],
    check: ({ run, agent }) =>
      algorithmKeys(run.algorithm).has_rollouts && agent !== undefined &&
      REWARD_SOURCES.every((source) => !agent[source]) &&
      { key: "agent", message: `needs a source of reward: ${REWARD_KEYS.join(" or ")}` },
  },
  {
    keys: ["run.algorithm", "agent.environment", "evaluation"],
    check: ({ run, agent, evaluation }) =>
      algorithmKeys(run.algorithm).has_rollouts && agent !== undefined && evaluation !== undefined &&
      !agent.environment &&
      { key: "evaluation", message: "needs [agent.environment]: held-out scenarios must be verifiable" },
  },
  {
    keys: ["evaluation.patience", "evaluation.every_updates"],
    check: ({ evaluation }) =>
      evaluation?.patience !== undefined && evaluation.every_updates === undefined &&
      { key: "evaluation.patience", message: "needs evaluation.every_updates" },
  },
  {
    keys: ["output.adapter", "evaluation"],
    check: ({ output, evaluation }) =>
      output.adapter === "best" && evaluation === undefined &&
      {
        key: "output.adapter",
        message: 'must be "last" without [evaluation]: without evaluations no adapter is known to be best',
      },
  },
  ...[undefined, ...ENVIRONMENT_TYPES].map((type): Rule => ({
    keys: ["id", "type", ...type ? ENVIRONMENT_KINDS[type].keys : []].map(environmentKey),
    check: ({ agent }) =>
      agent?.environment && agent.environment.type === type && !agent.environment.id &&
      environmentProblems(agent.environment).map(({ key, ...broken }) => ({
        ...{ key: environmentKey(key), ...broken },
      })),
  })),
  {
    keys: ["agent.environment.tools", "agent.environment.scenario_toolsets", "agent.environment.toolsets"],
    check: ({ agent }) => agent?.environment && toolsetProblems(agent.environment),
  },
  {
    keys: ["id", "type", "base_url", "model", "api_key_env", "max_chars", "max_retries"].map((key) =>
      `agent.judge.${key}`
    ),
    check: ({ agent }) =>
      agent?.judge && !agent.judge.id &&
      judgeProblems(agent.judge).map(({ key, ...broken }) => ({ key: `agent.judge.${key}`, ...broken })),
  },
  {
    keys: ["id", "command", "url", "name", "env", "headers"].map((key) => `agent.mcp_servers.*.${key}`),
    check: ({ agent }) => agent?.mcp_servers.flatMap(serverProblems),
  },
  ...["agent.scenario_generation.base_url", "agent.collect_api.base_url"].map((key): Rule => ({
    keys: [key],
    check: (config) =>
      hasCredentials(valueAt(config, key.split(".")) as string | undefined) && {
        key,
        message: "must have no user name or password",
        hint: "name the environment variable of a key in api_key_env",
      },
  })),
  { keys: ["agent.mcp_servers.*.id", "agent.mcp_servers.*.name"], check: repeatedServers },
  {
    keys: ["agent.environment", "agent.mcp_servers.*.stateless"],
    check: ({ agent }) =>
      agent?.environment && agent.mcp_servers.flatMap(({ stateless }, i) =>
        stateless ? [] : [{
          key: `agent.mcp_servers.${i}.stateless`,
          message: "must be true beside an environment: a server's state would outlive the trajectory",
        }]
      ),
  },
];

function serverProblems(server: McpServerConfig, i: number): Broken[] {
  const { id, name } = server;
  const key = (name: string) => `agent.mcp_servers.${i}.${name}`;
  const misplaced = server.command || id !== undefined ? [] : ["env"] as const;
  const unused = [...misplaced, ...server.url === undefined && id === undefined ? ["headers"] as const : []];
  const wrong_url = urlProblem(server.url);
  return [
    ...(wrong_url ? [{ ...wrong_url, key: key(wrong_url.key) }] : []),
    ...unused.filter((name) => server[name] !== undefined).map((name) => ({
      key: key(name),
      message: name === "headers" ? "is for servers with a url" : "is for servers with a command",
    })),
    ...(hasOnePlace(server, id) ? [] : [{ key: key("command"), message: "give one of command, url and id" }]),
    ...((name ?? id) === undefined
      ? [{ key: key("name"), message: "is missing", missing: true as const }]
      : []),
  ];
}

/** The name of a server is the prefix of its tools. */
function repeatedServers({ agent }: RunConfig): Broken[] {
  const names = (agent?.mcp_servers ?? []).map(({ name, id }) => name ?? id);
  return names.flatMap((name, i) => {
    if (name === undefined || names.indexOf(name) === i) return [];
    return [{ key: `agent.mcp_servers.${i}.name`, message: `"${name}" is the name of two servers` }];
  });
}

/** A violated rule. */
export interface RuleFinding {
  finding: Finding;
  /** The keys that the rule reads. */
  keys: readonly string[];
}

/**
 * All violated rules.
 *
 * @param isWrong Whether a key, a key inside it or a table around it is already known to be invalid.
 */
export function checkRules(
  config: RunConfig,
  isWrong: (key: string) => boolean = () => false,
): RuleFinding[] {
  return RULES.flatMap(({ keys, check }) => {
    if (keys.some(isWrong)) return [];
    return [check(config) || []].flat().map(({ key, message, missing, hint }): RuleFinding => {
      const path = key.split(".").map((part) => /^\d+$/.test(part) ? Number(part) : part);
      const code = missing ? "missing_field" : "invalid_value";
      return { keys, finding: { path, code, message, ...(hint === undefined ? {} : { hint }) } };
    });
  });
}
