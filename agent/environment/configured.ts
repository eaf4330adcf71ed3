/** Which environments a configuration asks for: the one place that knows all kinds. */

import type { ResolvedConfig } from "../../config/derive.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { EnvironmentFactory } from "./environment.ts";
import { localEnvironments } from "./local.ts";

/** The environments of `[agent.environment]`; null where nothing is rolled out. */
export function configuredEnvironments(
  config: Pick<ResolvedConfig, "agent">,
  { clock, workspaces }: { clock: Clock; workspaces: string },
): EnvironmentFactory | null {
  const environment = config.agent?.environment;
  if (!environment) return null;
  if (environment.type !== "local") {
    throw new ServiceError(
      "not_built",
      `Cannot use agent.environment.type = "${environment.type}": not in this build`,
    );
  }
  return localEnvironments({
    ...environment,
    limits: { exec_timeout_secs: environment.limits.exec_timeout_secs },
    clock,
    directory: workspaces,
  });
}
