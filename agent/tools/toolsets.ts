/** The table of toolsets, and the choice of one for a scenario. */

import type { BuiltToolsetName } from "../../config/check/not_built.ts";
import { type ErrorCode, ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { FILES_TOOLSET } from "./builtin/files.ts";
import type { Toolset } from "./toolset.ts";

/** Toolsets by name. */
type ToolsetTable = Readonly<Record<string, Toolset>>;

/** The toolsets of this build. Each is a file in `builtin/` and a line here. */
export const TOOLSETS: ToolsetTable = { files: FILES_TOOLSET } satisfies Record<BuiltToolsetName, Toolset>;

/** The toolsets that an environment offers: keys of `[agent.environment]`, and the table with their names. */
export interface ToolsetChoice {
  tools: { default?: string | undefined };
  scenario_toolsets: readonly string[];
  /** Absent: {@link TOOLSETS}. */
  table?: ToolsetTable;
}

/**
 * The toolset of a scenario: the one that it names, which must be the default or one of `scenario_toolsets`, else the
 * default.
 *
 * @throws {ServiceError} `data_invalid`, or `not_built` for a toolset that no configuration can offer; see
 * {@link catalogRefusal}.
 */
export function toolsetOf(scenario: Scenario, choice: ToolsetChoice): Toolset {
  const fallback = choice.tools.default, { table = TOOLSETS } = choice;
  const name = scenario.env?.toolset ?? fallback;
  if (name === undefined) {
    const reason =
      "it names no toolset and the environment has no default: set agent.environment.tools.default";
    throw catalogRefusal(scenario, "data_invalid", reason);
  }
  if (!Object.hasOwn(table, name)) throw catalogRefusal(scenario, "not_built", absence(name, table));
  if (name === fallback || choice.scenario_toolsets.includes(name)) return table[name]!;
  const quoted = JSON.stringify(name);
  const reason = `toolset ${quoted} is not offered: add it to agent.environment.scenario_toolsets`;
  throw catalogRefusal(scenario, "data_invalid", reason);
}

/**
 * All toolsets that scenarios may have, the default first, each once.
 *
 * @throws {ServiceError} `not_built` for a name that is not in the table.
 */
export function offeredToolsets(choice: ToolsetChoice): Toolset[] {
  const { tools: { default: fallback }, scenario_toolsets, table = TOOLSETS } = choice;
  const names = new Set([...fallback === undefined ? [] : [fallback], ...scenario_toolsets]);
  return [...names].map((name) => {
    if (Object.hasOwn(table, name)) return table[name]!;
    throw new ServiceError(
      "not_built",
      `Cannot use toolset ${JSON.stringify(name)}: ${absence(name, table)}`,
    );
  });
}

function absence(name: string, table: ToolsetTable): string {
  return `there is no toolset ${JSON.stringify(name)} in this build, which has ${
    Object.keys(table).join(", ")
  }`;
}

/**
 * The error for a scenario that cannot have tools. The details hold the scenario's line and the reason; a caller that
 * knows the file adds its name.
 */
export function catalogRefusal(scenario: Scenario, code: ErrorCode, reason: string): ServiceError {
  const { id, line } = scenario;
  const message = `Cannot give tools to scenario ${JSON.stringify(id)} (line ${line}): ${reason}`;
  return new ServiceError(code, message, { line, reason });
}
