/**
 * Builds what a configuration asks of this room. No other file knows all kinds of environments, tool hosts and graders.
 */

import { tmpdir } from "node:os";
import { basename, dirname } from "node:path";
import type { AgentConfig, EnvironmentConfig } from "../config/schema.ts";
import { findNotBuilt } from "../config/check/not_built.ts";
import type { BuiltEnvironmentType } from "../config/environments.ts";
import { type GraderName, GRADERS } from "../config/sections/agent.ts";
import type { EnvironmentType } from "../config/sections/environment.ts";
import type { Clock } from "../core/clock.ts";
import { AsyncQueue } from "../core/async_queue.ts";
import { endpointHost } from "../core/chat_api/endpoint.ts";
import { assert, ServiceError } from "../core/errors.ts";
import type { PermissionNeeds } from "../core/permissions.ts";
import type { EnvironmentFactory } from "./environment/environment.ts";
import { containerEnvironments, ownersFolder } from "./environment/container.ts";
import { DOCKER_HOST, ENGINE_NAMES, SECCOMP_FILES } from "./environment/container_engine.ts";
import { httpEnvironments } from "./environment/http.ts";
import { localEnvironments } from "./environment/local.ts";
import { noEnvironment } from "./environment/no_environment.ts";
import { withToolHosts } from "./environment/with_tool_hosts.ts";
import { environmentGrader } from "./grading/environment_grader.ts";
import type { Grader } from "./grading/grader.ts";
import { configuredJudge } from "./judge/configured_judge.ts";
import { judgeGrader } from "./judge/judge_grader.ts";
import type { BaseModel } from "./judge/local_judge.ts";
import { rewardGrader } from "./grading/reward_grader.ts";
import { RewardProgram } from "./grading/reward_program.ts";
import { hasMcpServers, mcpHosts, mcpNeeds } from "./mcp/mcp_hosts.ts";
import type { ToolHostFactory } from "./tools/tool_host.ts";
import { configuredToolsets } from "./tools/toolsets.ts";

/** The environments of attempts with all their tools, and the graders. */
export interface ConfiguredWorld {
  environments: EnvironmentFactory;
  /** In order: the first that grades a group is its only source of rewards. */
  graders: readonly Grader[];
  /** Messages of environments, tool hosts and graders' programs, for the run's log; ends when the world closes. */
  messages: AsyncIterable<string>;
  /** Releases what the attempts share. Never throws; a second call does nothing. */
  close(): Promise<void>;
}

/** Options of a world besides the configuration. */
export interface WorldOptions {
  clock: Clock;
  /** The folder for workspaces; absent: the system's folder of temporary files. */
  workspaces?: string;
  /** The run's own model, for a judge of type local; absent: none is loaded, and nothing may be graded by it. */
  base_model?: BaseModel;
}

/** The parts of a world, as the keys of `[agent]` choose them. */
export interface WorldParts {
  /** Null without `[agent.environment]`: the environment then grades nothing. */
  environments: EnvironmentFactory | null;
  /** Tools besides the environment's. */
  hosts: readonly ToolHostFactory[];
  /** Graders besides the environment, in the order in which they are asked after it. */
  graders: readonly Grader[];
  /** Absent: no grader has a program. */
  programs?: Programs;
  clock: Clock;
}

/** The programs of graders. */
interface Programs {
  messages: AsyncQueue<string>;
  /** Never throws. */
  close(): Promise<void>;
}

/**
 * Builds the environments, tools and graders of `[agent]`; null when the run has no rollouts. Nothing is opened.
 *
 * @param tool_hosts The kinds of tool hosts that the section may ask for.
 * @throws {ServiceError} `not_built`, `config_invalid`.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { loadRunConfig } from "../config/check/load.ts";
 * import { systemClock } from "../core/clock.ts";
 *
 * const { config } = await loadRunConfig("examples/tiny_agent_grpo.toml");
 * const world = configuredWorld(config, { clock: systemClock })!;
 * const [offered] = await world.environments.catalogs(new AbortController().signal);
 * assert.equal(offered!.name, "files");
 * assert.deepEqual(world.graders.map(({ source }) => source), ["environment"]);
 * await world.close();
 * ```
 */
export function configuredWorld(
  { run, agent }: { run?: { seed: number }; agent?: AgentConfig | undefined },
  options: WorldOptions,
  tool_hosts: readonly BuiltToolHost[] = BUILT_TOOL_HOSTS,
): ConfiguredWorld | null {
  if (!agent) return null;
  const [not_built] = findNotBuilt({ agent });
  if (not_built) throw new ServiceError("not_built", not_built.message);
  const messages = new AsyncQueue<string>();
  const seed = run?.seed ?? 0;
  const opened = gradersOf(agent).map((kind) => kind.open(agent, { ...options, seed, messages }));
  return composeWorld({
    environments: agent.environment
      ? environmentOf(agent.environment).open(agent.environment, {
        ...{ ...options, messages, key_variables: keyVariables(agent) },
        concurrent_rollouts: agent.concurrent_rollouts ?? 1,
      })
      : null,
    hosts: hostsOf(agent, tool_hosts).flatMap((kind) => kind.open(agent, { ...options, messages })),
    graders: opened.map(({ grader }) => grader),
    clock: options.clock,
    programs: {
      messages,
      async close() {
        await Promise.all(opened.map(({ close }) => close()));
      },
    },
  });
}

/** The variables with the keys of `[agent]`. */
function keyVariables({ judge, collect_api, scenario_generation }: AgentConfig): string[] {
  const names = [judge, collect_api, scenario_generation].map((section) => section?.api_key_env);
  return [...new Set(names.filter((name) => name !== undefined))];
}

/** Puts the parts together. */
export function composeWorld(
  { environments: own, hosts, graders, programs, clock }: WorldParts,
): ConfiguredWorld {
  const environments = withToolHosts(own ?? noEnvironment(), hosts, clock);
  const { messages = new AsyncQueue<string>() } = programs ?? {};
  return {
    environments,
    graders: [environmentGrader(environments), ...graders],
    messages,
    async close() {
      await Promise.all([environments.close(), programs?.close()]);
      messages.close();
    },
  };
}

/**
 * What a thread with the world of `[agent]` may access.
 *
 * @param workspaces The folder for workspaces.
 * @param tool_hosts As for {@link configuredWorld}.
 */
export function worldPermissions(
  { agent }: { agent?: AgentConfig | undefined },
  { workspaces }: { workspaces: string },
  tool_hosts: readonly BuiltToolHost[] = BUILT_TOOL_HOSTS,
): PermissionNeeds[] {
  if (!agent) return [];
  const { environment } = agent;
  return [
    ...environment ? [environmentOf(environment).needs(environment, { workspaces })] : [],
    ...hostsOf(agent, tool_hosts).map((kind) => kind.needs(agent, { workspaces })),
    ...gradersOf(agent).map((kind) => kind.needs(agent, { workspaces })),
  ];
}

/**
 * What a process that only lists the tools of the world of `[agent]` may access, as a plan does.
 *
 * @param tool_hosts As for {@link configuredWorld}.
 */
export function listingPermissions(
  { agent }: { agent?: AgentConfig | undefined },
  tool_hosts: readonly BuiltToolHost[] = BUILT_TOOL_HOSTS,
): PermissionNeeds[] {
  if (!agent) return [];
  const { environment } = agent;
  return [
    ...environment ? [environmentOf(environment).listing_needs(environment)] : [],
    ...hostsOf(agent, tool_hosts).map((kind) => kind.listing_needs(agent)),
  ];
}

/** Programs of others, which act in workspaces. It is only a second line of defence: they may do anything. */
const commandNeeds = (_section: unknown, { workspaces }: { workspaces: string }): PermissionNeeds => ({
  ...{ read: true, run: true },
  write: [workspaces],
});

/** A kind of environment. */
interface BuiltEnvironment {
  open(
    section: EnvironmentConfig,
    options: WorldOptions & {
      messages: AsyncQueue<string>;
      concurrent_rollouts: number;
      /** Variables of this process with keys. */
      key_variables: readonly string[];
    },
  ): EnvironmentFactory;
  /** The permissions that attempts need. */
  needs(section: EnvironmentConfig, options: { workspaces: string }): PermissionNeeds;
  /** The permissions that listing its tools needs. */
  listing_needs(section: EnvironmentConfig): PermissionNeeds;
}

/** The kinds of environments, by `agent.environment.type`. */
const BUILT_ENVIRONMENTS: Readonly<Record<BuiltEnvironmentType, BuiltEnvironment>> = {
  local: {
    open: (section, { clock, workspaces, messages, key_variables }) =>
      localEnvironments({
        ...section,
        limits: { exec_timeout_secs: section.limits.exec_timeout_secs },
        table: configuredToolsets(section.toolsets),
        ...{ clock, key_variables },
        notify: (message) => messages.push(message),
        ...(workspaces !== undefined && { directory: workspaces }),
      }),
    needs: commandNeeds,
    // Its tools are a table of this program.
    listing_needs: () => ({}),
  },
  container: {
    open: (section, { clock, workspaces, messages, concurrent_rollouts }) =>
      containerEnvironments({
        section,
        tools: {
          ...section,
          tools: { default: section.tools.default ?? toolsetOfProfile(section) },
          table: configuredToolsets(section.toolsets),
        },
        concurrent_rollouts,
        clock,
        notify: (message) => messages.push(message),
        ...(workspaces !== undefined && { run: basename(dirname(workspaces)) }),
      }),
    // Only the engine's program runs here; what a model writes runs in containers.
    needs: () => {
      const folder = ownersFolder();
      return {
        ...{ run: ENGINE_NAMES, env: [DOCKER_HOST], sys: ["uid"] },
        ...{ read: [folder, ...SECCOMP_FILES], write: [folder] },
      };
    },
    // A plan asks the engine whether containers can start, by one that belongs to the plan's process.
    listing_needs: () => {
      const folder = ownersFolder();
      return { run: ENGINE_NAMES, env: [DOCKER_HOST], sys: ["uid"], read: [folder], write: [folder] };
    },
  },
  http: {
    open: (section, { clock }) =>
      httpEnvironments({
        base_url: addressOf(section),
        api_key_env: section.api_key_env,
        limits: { exec_timeout_secs: section.limits.exec_timeout_secs },
        clock,
      }),
    needs: serverNeeds,
    // The server says which tools it has.
    listing_needs: serverNeeds,
  },
};

function addressOf({ base_url }: EnvironmentConfig): string {
  assert(base_url !== undefined, "a loaded configuration names the environment's server");
  return base_url;
}

/** Connections to the environment's server, its key, and nothing else. */
function serverNeeds(section: EnvironmentConfig): PermissionNeeds {
  const { api_key_env } = section;
  return {
    net: [endpointHost(addressOf(section))],
    ...(api_key_env !== undefined && { env: [api_key_env] }),
  };
}

/** The default toolset of a container; a custom image has none. */
function toolsetOfProfile({ profile }: EnvironmentConfig): string | undefined {
  return profile === "custom" ? undefined : profile;
}

function environmentOf({ type }: EnvironmentConfig): BuiltEnvironment {
  const kinds: Partial<Record<EnvironmentType, BuiltEnvironment>> = BUILT_ENVIRONMENTS, kind = kinds[type!];
  assert(kind, `agent.environment.type = ${type} is built, or refused`);
  return kind;
}

/** A kind of tool host besides the environment. */
export interface BuiltToolHost {
  /** Whether the section asks for hosts of this kind. Only then the other methods are called. */
  applies(agent: AgentConfig): boolean;
  /**
   * Makes the hosts; they start with their first use.
   *
   * @throws {ServiceError} `config_invalid`.
   */
  open(
    agent: AgentConfig,
    options: WorldOptions & { messages: AsyncQueue<string> },
  ): readonly ToolHostFactory[];
  /** The permissions that attempts need. */
  needs(agent: AgentConfig, options: { workspaces: string }): PermissionNeeds;
  /** The permissions that listing its tools needs. */
  listing_needs(agent: AgentConfig): PermissionNeeds;
}

/** The kinds of tool hosts, in the order of their tools after those of the environment. */
const BUILT_TOOL_HOSTS: readonly BuiltToolHost[] = [
  {
    applies: hasMcpServers,
    open: (agent, { messages, ...options }) =>
      mcpHosts(agent, { ...options, report: (message) => messages.push(message) }),
    needs: (agent, { workspaces }) => mcpNeeds(agent, [workspaces]),
    // A plan lists tools before its run has a folder.
    listing_needs: (agent) => mcpNeeds(agent, [tmpdir()]),
  },
];

function hostsOf(agent: AgentConfig, kinds: readonly BuiltToolHost[]): BuiltToolHost[] {
  return kinds.filter((kind) => kind.applies(agent));
}

/** A kind of grader besides the environment. */
interface BuiltGrader {
  /** The grader of its key in `[agent]`, which is set. `close` never throws. */
  open(
    agent: AgentConfig,
    options: WorldOptions & { seed: number; messages: AsyncQueue<string> },
  ): { grader: Grader; close(): Promise<void> };
  needs(agent: AgentConfig, options: { workspaces: string }): PermissionNeeds;
}

/** The kinds of graders, by their key in `[agent]`. */
const BUILT_GRADERS: Readonly<Record<GraderName, BuiltGrader>> = {
  reward: {
    open({ reward }, { messages, ...options }) {
      assert(
        typeof reward === "object" && reward.cwd !== undefined,
        "a loaded configuration names no catalogue",
      );
      const program = new RewardProgram({ ...options, ...reward, cwd: reward.cwd, messages });
      return { grader: rewardGrader(program), close: () => program.close() };
    },
    needs: commandNeeds,
  },
  judge: {
    open({ judge: section }, options) {
      const { judge, close } = configuredJudge(section!, options);
      return { grader: judgeGrader(judge, { permute: section!.permute, seed: options.seed }), close };
    },
    needs({ judge }) {
      const { base_url, api_key_env, cache_path } = judge!;
      return {
        ...(base_url !== undefined && { net: [endpointHost(base_url)] }),
        ...(api_key_env !== undefined && { env: [api_key_env] }),
        ...(cache_path !== undefined && { read: [cache_path], write: [cache_path] }),
      };
    },
  },
};

/** The kinds of an agent's graders, in the order in which they are asked. */
function gradersOf(agent: AgentConfig): BuiltGrader[] {
  return GRADERS.filter((name) => agent[name] !== undefined).map((name) => BUILT_GRADERS[name]);
}
