/** The environment of a run without `[agent.environment]`: it has no tools and no workspace, and grades nothing. */

import { assert } from "../../core/errors.ts";
import type { ToolCatalog } from "../tools/tool_host.ts";
import { catalogRefusal } from "../tools/toolsets.ts";
import type { Environment, EnvironmentFactory } from "./environment.ts";

/** The limit of a call to another tool host that ignores its own limit, which is shorter. */
export const CALL_TIMEOUT_MS = 40_000;

/**
 * The environments of a configuration without `[agent.environment]`. A scenario with `metadata.env` is refused, because
 * nothing would prepare or verify it.
 */
export function noEnvironment(): EnvironmentFactory {
  return {
    call_timeout_ms: CALL_TIMEOUT_MS,
    grading_advice: "add [agent.environment] and give it metadata.env.verify",
    catalog(scenario) {
      const reason = "its metadata.env needs [agent.environment]; add that section or leave metadata.env out";
      if (scenario.env) return Promise.reject(catalogRefusal(scenario, "data_invalid", reason));
      return Promise.resolve(emptyCatalog());
    },
    catalogs: () => Promise.resolve([{ ...emptyCatalog(), is_default: true }]),
    coverage: () => "none",
    open: () => Promise.resolve(EMPTY),
    close: () => Promise.resolve(),
  };
}

const emptyCatalog = (): ToolCatalog => ({ name: "none", version: "1", tools: [] });

const EMPTY: Environment = {
  call({ name }) {
    assert(false, `nothing offers the tool ${name}`);
  },
  grade: () => Promise.resolve({ reward: null, timed_out: false }),
  state: () => Promise.resolve({ value: null }),
  close: () => Promise.resolve(),
};
