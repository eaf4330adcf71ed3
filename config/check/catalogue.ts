/** The operator's catalogue: what a request may name by an id, and never give itself. */

import { z } from "zod";
import { environmentSchema } from "../sections/environment.ts";
import { name, text } from "../sections/fields.ts";
import type { Finding } from "./issues.ts";
import { judgeSchema } from "../sections/judge.ts";
import { mcpServerSchema } from "../sections/mcp.ts";
import { rewardSchema } from "../sections/reward.ts";
import {
  catalogueIds,
  type CatalogueList,
  type CatalogueTable,
  catalogueTables,
  operatorsKey,
} from "./request_keys.ts";
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
export interface Catalogue extends Record<CatalogueList, readonly { id: string }[]> {
  rewards: readonly RewardEntry[];
  judges: readonly JudgeEntry[];
  mcp_servers: readonly McpServerEntry[];
  environments: readonly EnvironmentEntry[];
}

type Table = Record<string, unknown>;
type Path = (string | number)[];

/** A configuration in which catalogue ids are replaced by what the operator declares for them. */
export interface AppliedCatalogue extends TomlTree {
  /** Ids without an entry. */
  unknown: Finding[];
  /** Values of the operator that the request would change. */
  declared: Finding[];
  /** Values beyond what the operator allows. */
  beyond: Finding[];
}

/**
 * Replaces the ids of `agent.reward`, `agent.environment`, `agent.judge` and `agent.mcp_servers` by the entries' keys.
 * Keys of the request join them as `CATALOGUE_TABLES` says, and never widen what the operator declares.
 */
export function applyCatalogue({ tree, floats }: TomlTree, catalogue: Catalogue): AppliedCatalogue {
  const applied: AppliedCatalogue = {
    ...{ tree: structuredClone(tree), floats, unknown: [], declared: [], beyond: [] },
  };
  for (const { path, list } of catalogueIds(tree)) {
    const id = valueAt(tree, path);
    if (typeof id !== "string" || catalogue[list].some((entry) => entry.id === id)) continue;
    const message = "is no entry of this server's catalogue";
    applied.unknown.push({ path, code: "invalid_value", message });
  }
  const reward = catalogue.rewards.find(({ id }) => id === valueAt(tree, ["agent", "reward"]));
  if (reward) (applied.tree.agent as Table).reward = programOf(reward);
  for (const { path, spec } of catalogueTables(tree)) {
    const table = valueAt(applied.tree, path);
    const entry = catalogue[spec.list].find(({ id }) => id === valueAt(table, ["id"]));
    if (isTable(table) && entry) join(applied, { path, spec, table, entry });
  }
  return applied;
}

/** What an entry says of a reward's program. */
function programOf({ id: _, description: __, ...program }: RewardEntry): Table {
  return structuredClone(program);
}

interface Joined {
  path: Path;
  spec: CatalogueTable;
  table: Table;
  entry: { id: string };
}

/** Fills a request's table with the keys of its entry. */
function join(applied: AppliedCatalogue, { path, spec, table, entry }: Joined): void {
  const { id, description: _, ...declared } = structuredClone(entry) as Table;
  const own: Table = { ...table };
  for (const key of Object.keys(table)) delete table[key];
  Object.assign(table, declared);
  delete own.id;
  for (const [key, value] of Object.entries(own)) {
    table[key] = isTable(value) && isTable(table[key]) ? { ...table[key], ...value } : value;
  }
  for (const [key, use] of Object.entries(spec.keys)) {
    const parts = key.split("."), asked = valueAt(own, parts), given = valueAt(declared, parts);
    if (asked === undefined) continue;
    const at = [...path, ...parts];
    if (use === "same" && asked !== given) applied.declared.push(operatorsKey(at));
    if (use === "at_most") applied.beyond.push(...beyondLimit(at, asked, given));
    if (use === "within") applied.beyond.push(...beyondList(at, { asked, given, declared }));
    if (use === "added") table[key] = addedTo(given, asked);
  }
  // The prefix of a server's tools is its id, which the table no longer has.
  if (spec.list === "mcp_servers") table.name ??= id;
}

type Values = Record<"asked" | "given", unknown>;

function beyondLimit(path: Path, asked: unknown, most: unknown): Finding[] {
  if (typeof asked !== "number" || typeof most !== "number" || asked <= most) return [];
  const message = `must be at most ${most}, the operator's limit, not ${asked}`;
  return [{ path, code: "out_of_range", message }];
}

/** Names of tools that the entry does not allow. */
function beyondList(path: Path, { asked, given, declared }: Values & { declared: Table }): Finding[] {
  if (!Array.isArray(asked)) return [];
  const denied = Array.isArray(declared.denied_tools) ? declared.denied_tools : [];
  return asked.flatMap((name, i): Finding[] => {
    if (!denied.includes(name) && (!Array.isArray(given) || given.includes(name))) return [];
    return [{ path: [...path, i], code: "invalid_value", message: "is no tool that the operator allows" }];
  });
}

function addedTo(given: unknown, asked: unknown): unknown {
  return Array.isArray(given) && Array.isArray(asked) ? [...new Set([...given, ...asked])] : asked;
}

function isTable(value: unknown): value is Table {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
