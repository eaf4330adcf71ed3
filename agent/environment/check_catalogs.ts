/** Checks the toolsets of scenarios before the first attempt. */

import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { EnvironmentFactory } from "./environment.ts";

/** Never aborted: every wait for a catalogue has its own time limit. */
const NEVER = new AbortController().signal;

/**
 * Checks that every scenario of a file gets its tools.
 *
 * @throws {ServiceError} That of the catalogue, with file and line; that of a host which cannot list its tools.
 */
export async function checkCatalogs(
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
