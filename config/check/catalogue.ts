/** The operator's catalogue: what a request may name by an id, and never give itself. */

import { z } from "zod";
import { environmentSchema } from "../sections/environment.ts";
import { name, text } from "../sections/fields.ts";
import type { Finding } from "./issues.ts";
import { judgeSchema } from "../sections/judge.ts";
import { mcpServerSchema } from "../sections/mcp.ts";
import { rewardSchema } from "../sections/reward.ts";
import { type TomlTree, valueAt } from "../text/toml_tree.ts";

const about = {
  id: name().meta({ description: "The id by which requests name it." }),
  description: z.string().default("").meta({ description: "What it is, for people; clients see it." }),
};

export const rewardEntrySchema = rewardSchema.extend(about);

export const judgeEntrySchema = judgeSchema.extend(about);

export const mcpServerEntrySchema = mcpServerSchema.extend({
  ...about,
  env: z.record(z.string(), z.string()).optional().meta({ description: "Environment variables to add." }),
  cwd: text().optional().meta({ description: "Working folder of the command." }),
});

export const environmentEntrySchema = environmentSchema.extend(about);

export type RewardEntry = z.output<typeof rewardEntrySchema>;
export type JudgeEntry = z.output<typeof judgeEntrySchema>;
export type McpServerEntry = z.output<typeof mcpServerEntrySchema>;
export type EnvironmentEntry = z.output<typeof environmentEntrySchema>;

/** All lists of the catalogue. */
export interface Catalogue {
  rewards: readonly RewardEntry[];
  judges: readonly JudgeEntry[];
  mcp_servers: readonly McpServerEntry[];
  environments: readonly EnvironmentEntry[];
}

/** The operator's limits, which a request may lower. */
const BOUNDED = ["limits.cpus", "limits.memory_mb", "limits.exec_timeout_secs", "pool.max_live"] as const;

type Table = Record<string, unknown>;

/** A configuration in which catalogue ids are replaced by what the operator declares for them. */
export interface AppliedCatalogue extends TomlTree {
  /** Ids without an entry. */
  unknown: Finding[];
  /** Limits above the operator's. */
  beyond: Finding[];
}

/**
 * Replaces `agent.reward`, `agent.environment.id` and `agent.judge.id` by the entries' keys; what the configuration
 * itself says of limits, pool and toolsets stays. Entries of `agent.mcp_servers` get the keys of theirs.
 */
export function applyCatalogue({ tree, floats }: TomlTree, catalogue: Catalogue): AppliedCatalogue {
  const copy = structuredClone(tree),
    applied: AppliedCatalogue = {
      tree: copy,
      floats,
      unknown: [],
      beyond: [],
    };
  const agent = copy.agent as Table | undefined;
  if (!isTable(agent)) return applied;
  const { rewards, judges, mcp_servers, environments } = catalogue;
  const reward = entryOf(applied, ["agent", "reward"], rewards);
  if (reward) agent.reward = programOf(reward);
  merge(applied, ["agent", "judge"], judges);
  const environment = merge(applied, ["agent", "environment"], environments);
  if (environment) applied.beyond.push(...beyondLimits(tree, environment));
  const servers = agent.mcp_servers;
  if (Array.isArray(servers)) {
    servers.forEach((_, i) => merge(applied, ["agent", "mcp_servers", i], mcp_servers));
  }
  return applied;
}

/** Fills the table at a path with the keys of the entry that its `id` names. */
function merge<T extends { id: string }>(
  applied: AppliedCatalogue,
  path: (string | number)[],
  entries: readonly T[],
): T | null {
  const table = valueAt(applied.tree, path);
  if (!isTable(table) || table.id === undefined) return null;
  const entry = entryOf(applied, [...path, "id"], entries);
  if (!entry) return null;
  const { id: _, description: __, ...declared } = entry as Table;
  delete table.id;
  for (const [key, value] of Object.entries(declared)) {
    const own = table[key];
    if (own === undefined) table[key] = structuredClone(value);
    else if (isTable(own) && isTable(value)) table[key] = { ...structuredClone(value), ...own };
  }
  return entry;
}

/** What an entry says of a reward's program. */
function programOf({ id: _, description: __, ...program }: RewardEntry): Table {
  return structuredClone(program);
}

/** The entry with the id at a path; without one the id becomes a finding. */
function entryOf<T extends { id: string }>(
  { tree, unknown }: AppliedCatalogue,
  path: (string | number)[],
  entries: readonly T[],
): T | null {
  const id = valueAt(tree, path);
  const entry = entries.find((found) => found.id === id);
  if (entry || typeof id !== "string") return entry ?? null;
  unknown.push({ path, code: "invalid_value", message: "is no entry of this server's catalogue" });
  return null;
}

function beyondLimits(tree: unknown, entry: EnvironmentEntry): Finding[] {
  return BOUNDED.flatMap((key) => {
    const path = ["agent", "environment", ...key.split(".")];
    const asked = valueAt(tree, path), most = valueAt(entry, key.split("."));
    if (typeof asked !== "number" || typeof most !== "number" || asked <= most) return [];
    const message = `must be at most ${most}, the operator's limit, not ${asked}`;
    return [{ path, code: "out_of_range" as const, message }];
  });
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
