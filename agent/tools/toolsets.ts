/** The table of toolsets, and the choice of one for a scenario. */

import type { BuiltinToolset, ToolsetConfig } from "../../config/sections/environment.ts";
import { type ErrorCode, ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { FILES_TOOLSET } from "./builtin/files.ts";
import { PYTHON_TOOLSET } from "./builtin/python.ts";
import { TYPESCRIPT_TOOLSET } from "./builtin/typescript.ts";
import { customToolset } from "./custom_toolset.ts";
import type { Toolset } from "./toolset.ts";

/** Toolsets by name. */
type ToolsetTable = Readonly<Record<string, Toolset>>;

/** The toolsets of this build. Each is a file in `builtin/` and a line here. */
export const TOOLSETS: ToolsetTable = {
  files: FILES_TOOLSET,
  python: PYTHON_TOOLSET,
  typescript: TYPESCRIPT_TOOLSET,
} satisfies Record<BuiltinToolset, Toolset>;

/** The toolsets of this build and those of `[agent.environment.toolsets]`. */
export function configuredToolsets(own: Readonly<Record<string, ToolsetConfig>> = {}): ToolsetTable {
  const custom = Object.entries(own).map(([name, toolset]) =>
    [name, customToolset(name, toolset, TOOLSETS)] as const
  );
  return { ...TOOLSETS, ...Object.fromEntries(custom) };
}

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
 * @throws {ServiceError} `data_invalid`; see {@link catalogRefusal}.
 */
export function toolsetOf(scenario: Scenario, choice: ToolsetChoice): Toolset {
  const fallback = choice.tools.default, { table = TOOLSETS } = choice;
  const name = scenario.env?.toolset ?? fallback;
  if (name === undefined) {
    const reason =
      "it names no toolset and the environment has no default: set agent.environment.tools.default";
    throw catalogRefusal(scenario, "data_invalid", reason);
  }
  if (!Object.hasOwn(table, name)) throw catalogRefusal(scenario, "data_invalid", absence(name, table));
  if (name === fallback || choice.scenario_toolsets.includes(name)) return table[name]!;
  const quoted = JSON.stringify(name);
  const reason = `toolset ${quoted} is not offered: add it to agent.environment.scenario_toolsets`;
  throw catalogRefusal(scenario, "data_invalid", reason);
}

/**
 * All toolsets that scenarios may have, the default first, each once.
 *
 * @throws {ServiceError} `config_invalid` for a name that is not in the table.
 */
export function offeredToolsets(choice: ToolsetChoice): Toolset[] {
  const { tools: { default: fallback }, scenario_toolsets, table = TOOLSETS } = choice;
  const names = new Set([...fallback === undefined ? [] : [fallback], ...scenario_toolsets]);
  return [...names].map((name) => {
    if (Object.hasOwn(table, name)) return table[name]!;
    throw new ServiceError(
      "config_invalid",
      `Cannot use toolset ${JSON.stringify(name)}: ${absence(name, table)}`,
    );
  });
}

function absence(name: string, table: ToolsetTable): string {
  return `there is no toolset ${JSON.stringify(name)}; there are ${Object.keys(table).join(", ")}`;
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
