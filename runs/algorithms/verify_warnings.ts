/** Warns of verifications that an attempt may be able to change. */

import { protectionGap } from "../../agent/environment/protect_globs.ts";
import type { AgentConfig, EnvironmentConfig } from "../../config/schema.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { RunWarning } from "../record/warning.ts";

/** Keys of a configuration with rollouts. */
interface VerifyKeys {
  agent?: Pick<AgentConfig, "scenarios"> & { environment?: EnvironmentConfig | undefined };
  evaluation?: { data: string } | undefined;
}

/** A warning for each file with such scenarios; `heldout` is null without `[evaluation]`. */
export function verifyWarnings(
  { agent, evaluation }: VerifyKeys,
  { scenarios, heldout }: { scenarios: readonly Scenario[]; heldout: readonly Scenario[] | null },
): RunWarning[] {
  // The server of another environment knows no verify command.
  if (!agent?.environment || agent.environment.type === "http") return [];
  const { protect } = agent.environment;
  return [
    ...warningsOf({ field: "agent.scenarios", path: agent.scenarios, scenarios, protect }),
    ...warningsOf({
      field: "evaluation.data",
      path: evaluation?.data ?? "",
      scenarios: heldout ?? [],
      protect,
    }),
  ];
}

function warningsOf({ field, path, scenarios, protect }: {
  field: string;
  path: string;
  scenarios: readonly Scenario[];
  protect: readonly string[] | undefined;
}): RunWarning[] {
  const gaps = scenarios.flatMap((scenario) => {
    const reason = protectionGap(scenario, protect);
    return reason === null ? [] : [{ ...scenario, reason }];
  });
  const [first] = gaps;
  if (!first) return [];
  const message = `an attempt may be able to change what verifies scenario ${JSON.stringify(first.id)} ` +
    `(${path}:${first.line}${
      gaps.length > 1 ? `, and of ${gaps.length - 1} others` : ""
    }): ${first.reason}; ` +
    "list the files in metadata.env.verify.protect, or set that to [] if there are none";
  return [{ code: "unprotected_verification", field, message }];
}
