/** Adds the tools of other hosts to environments. */

import { composeTools, type HostedTools, type ToolHost } from "../tools/tool_host.ts";
import type { EnvironmentFactory } from "./environment.ts";

/**
 * The same environments with the tools of `hosts` after their own in every catalogue. A call goes to the host that
 * lists its tool. Two hosts may not list the same name.
 */
export function withToolHosts(
  environments: EnvironmentFactory,
  hosts: readonly HostedTools[],
): EnvironmentFactory {
  if (hosts.length === 0) return environments;
  return {
    type: environments.type,
    call_timeout_ms: environments.call_timeout_ms,
    canGrade: (scenario) => environments.canGrade(scenario),
    async catalog(scenario) {
      const catalog = await environments.catalog(scenario);
      return { ...catalog, tools: [...catalog.tools, ...hosts.flatMap(({ tools }) => tools)] };
    },
    async open(scenario, options) {
      const { tools } = await environments.catalog(scenario);
      const own: ToolHost = { call: (call, signal) => environment.call(call, signal) };
      const { call } = composeTools([{ tools, host: own }, ...hosts]);
      const environment = await environments.open(scenario, options);
      return { call, grade: (signal) => environment.grade(signal), close: () => environment.close() };
    },
  };
}
