/**
 * Builds what a configuration asks of this room. No other file knows all kinds of environments, tool hosts and graders.
 */

import type { ResolvedAgent, ResolvedConfig } from "../config/derive.ts";
import type { Clock } from "../core/clock.ts";
import { ServiceError } from "../core/errors.ts";
import type { EnvironmentFactory } from "./environment/environment.ts";
import { localEnvironments } from "./environment/local.ts";
import { withToolHosts } from "./environment/with_tool_hosts.ts";
import { environmentGrader } from "./grading/environment_grader.ts";
import type { Grader } from "./grading/grader.ts";
import type { HostedTools } from "./tools/tool_host.ts";

/** The environments of attempts, and their graders. */
export interface ConfiguredWorld {
  environments: EnvironmentFactory;
  /** In order: the first that grades a group is its only source of rewards. */
  graders: readonly Grader[];
}

/** What environments need beside the configuration. */
export interface WorldOptions {
  clock: Clock;
  /** The folder for workspaces. */
  workspaces: string;
}

/**
 * Builds the environments and graders of `[agent]`; null when the run has no rollouts. @throws {ServiceError}
 * `not_built`, `config_invalid`.
 */
export function configuredWorld(
  config: Pick<ResolvedConfig, "agent">,
  options: WorldOptions,
): ConfiguredWorld | null {
  const environment = config.agent?.environment;
  if (!environment) return null;
  const environments = withToolHosts(environmentsOf(environment, options), toolHosts());
  return { environments, graders: [environmentGrader(environments)] };
}

type EnvironmentSection = NonNullable<ResolvedAgent["environment"]>;

function environmentsOf(
  section: EnvironmentSection,
  { clock, workspaces }: WorldOptions,
): EnvironmentFactory {
  if (section.type !== "local") {
    throw new ServiceError(
      "not_built",
      `Cannot use agent.environment.type = "${section.type}": not in this build`,
    );
  }
  return localEnvironments({
    ...section,
    limits: { exec_timeout_secs: section.limits.exec_timeout_secs },
    clock,
    directory: workspaces,
  });
}

/** Tool hosts besides the environment; this build has none. */
function toolHosts(): HostedTools[] {
  return [];
}
