/** What every declared environment must say, in a run's configuration and in the server's catalogue. */

import { ENVIRONMENT_TYPES } from "../sections/environment.ts";
import type { EnvironmentConfig } from "../schema.ts";

/** A broken rule at a key of the environment. */
export interface EnvironmentProblem {
  key: "type" | "base_url";
  message: string;
  missing?: true;
  hint?: string;
}

/** The broken rules of an environment that says itself where tools run. */
export function environmentProblems(
  { type, allow_unsandboxed, base_url }: Pick<EnvironmentConfig, "type" | "allow_unsandboxed" | "base_url">,
): EnvironmentProblem[] {
  if (type === undefined) {
    const [last, ...others] = ENVIRONMENT_TYPES.map((name) => JSON.stringify(name)).reverse();
    return [{ key: "type", message: `is missing: ${others.reverse().join(", ")} or ${last}`, missing: true }];
  }
  if (type === "http" && base_url === undefined) {
    return [{ key: "base_url", message: "is missing: where the server is", missing: true }];
  }
  if (type !== "local" || allow_unsandboxed) return [];
  return [{
    key: "type",
    message: '"local" runs the tools that the model calls on this machine, without a sandbox',
    hint: "allow it with allow_unsandboxed = true",
  }];
}
