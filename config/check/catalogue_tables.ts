/** The lists of the operator's catalogue. A new list is an entry here. */

import { z } from "zod";
import { environmentProblems } from "../environments.ts";
import { ENVIRONMENT_TYPES, environmentSchema } from "../sections/environment.ts";
import { name } from "../sections/fields.ts";
import { JUDGE_TYPES, judgeProblems, judgeSchema } from "../sections/judge.ts";
import { hasOnePlace, mcpServerSchema, urlProblem } from "../sections/mcp.ts";
import { rewardSchema } from "../sections/reward.ts";

type Path = (string | number)[];

/**
 * How a request's key joins that of the catalogue's entry. `id` names the entry; `own`: the request's value counts;
 * `same`: only the entry's value may be repeated; `at_most`: a number up to the entry's; `within`: a list of what the
 * entry does not exclude; `added`: a list that is joined to the entry's.
 */
export type RequestUse = "id" | "own" | "same" | "at_most" | "within" | "added";

/** A rule that an entry of the server's file breaks. */
export interface EntryProblem {
  /** Of the entry; null: it is about the entry itself. */
  key: string | null;
  message: string;
  missing?: true;
  hint?: string;
}

/** An entry in the server's file. */
type Entry = Readonly<Record<string, unknown>>;

/** An entry of {@link CATALOGUE_TABLES}. */
export interface CatalogueTable {
  /** The key of `[agent]` that entries stand for. The field of a recipe's objective that names them is its name too. */
  field: string;
  /** Whether the key is a list of tables, each of which may be an entry. */
  is_list: boolean;
  /**
   * Every key below `field` that a request may set. All other keys are the operator's, new ones too. Null: a request
   * has the id in place of the table.
   */
  keys: Readonly<Record<string, RequestUse>> | null;
  /** What a run's own file, which has no catalogue, needs in place of an id. Absent: other rules refuse the id. */
  instead_of_id?: string;
  /** An entry in the server's file. */
  schema: z.ZodObject;
  /** Keys of an entry that are paths below the folder of the server's file, with their defaults. */
  paths: Readonly<Record<string, string>>;
  /** The rules that an entry breaks besides its schema. */
  problems(entry: Entry): readonly EntryProblem[];
  /** Names an entry in messages, with its article, such as "a judge". */
  noun: string;
  /** Names several entries. */
  plural: string;
  /** The route that lists the entries. */
  route: string;
  /** The name of a listed entry in the API's description. */
  schema_name: string;
  /** The possible types of an entry. */
  types: readonly [string, ...string[]];
  /** The type of an entry that breaks no rule. */
  typeOf(entry: Entry): string;
}

const about = {
  id: name().meta({ description: "The id by which requests name it." }),
  description: z.string().default("").meta({ description: "What it is, for people; clients see it." }),
};

const rewardEntry = rewardSchema.extend(about);
const judgeEntry = judgeSchema.extend(about);
const mcpServerEntry = mcpServerSchema.extend(about);
const environmentEntry = environmentSchema.extend(about);

/** For lists whose entries have no paths, and no rules besides their schema. */
const PLAIN = { paths: {}, problems: () => [] } as const;

/** By the name of the list in the server's file. */
export const CATALOGUE_TABLES = {
  rewards: {
    ...PLAIN,
    field: "reward",
    is_list: false,
    keys: null,
    instead_of_id: "name the program in [agent.reward] command",
    schema: rewardEntry,
    paths: { cwd: "." },
    noun: "a reward",
    plural: "Rewards",
    route: "/v1/rewards",
    schema_name: "Reward",
    types: ["command"],
    typeOf: () => "command",
  },
  judges: {
    ...PLAIN,
    field: "judge",
    is_list: false,
    keys: {
      id: "id",
      type: "same",
      rubric: "own",
      permute: "own",
      max_chars: "at_most",
      timeout_secs: "at_most",
      max_retries: "at_most",
    },
    instead_of_id: "name its endpoint in agent.judge.base_url, and its model in agent.judge.model",
    schema: judgeEntry,
    problems: judgeProblems,
    noun: "a judge",
    plural: "Judges",
    route: "/v1/judges",
    schema_name: "Judge",
    types: JUDGE_TYPES,
    typeOf: ({ type }: z.output<typeof judgeEntry>) => type,
  },
  environments: {
    ...PLAIN,
    field: "environment",
    is_list: false,
    keys: {
      id: "id",
      "limits.cpus": "at_most",
      "limits.memory_mb": "at_most",
      "limits.exec_timeout_secs": "at_most",
      "pool.max_live": "at_most",
      "pool.reuse": "same",
    },
    schema: environmentEntry,
    problems: environmentProblems,
    noun: "an environment",
    plural: "Environments",
    route: "/v1/environments",
    schema_name: "Environment",
    types: ENVIRONMENT_TYPES,
    typeOf: ({ type }: z.output<typeof environmentEntry>) => type!,
  },
  mcp_servers: {
    field: "mcp_servers",
    is_list: true,
    keys: { id: "id", name: "own", required: "own", allowed_tools: "within", denied_tools: "added" },
    instead_of_id: "give its command or url",
    schema: mcpServerEntry,
    paths: { cwd: "." },
    problems: (entry: z.output<typeof mcpServerEntry>) => [
      ...hasOnePlace(entry) ? [] : [{ key: null, message: "must have either command or url" }],
      ...[urlProblem(entry.url) ?? []].flat(),
    ],
    noun: "an MCP server",
    plural: "MCP servers",
    route: "/v1/mcp-servers",
    schema_name: "McpServer",
    types: ["stdio", "http"],
    typeOf: ({ url }: z.output<typeof mcpServerEntry>) => url === undefined ? "stdio" : "http",
  },
} as const satisfies Record<string, CatalogueTable>;

type Tables = typeof CATALOGUE_TABLES;

/** The lists of the server's file that a request names entries of. */
export type CatalogueList = keyof Tables;

/** The names of the lists. */
export const CATALOGUE_LISTS = Object.keys(CATALOGUE_TABLES) as CatalogueList[];

/** All lists with their entries. */
export type Catalogue = { readonly [L in CatalogueList]: readonly z.output<Tables[L]["schema"]>[] };

/** A recipe's objective: the ids of entries. */
export type RecipeObjective<Id> = {
  readonly [L in CatalogueList as Tables[L]["field"]]?:
    | (Tables[L]["is_list"] extends true ? readonly Id[] : Id)
    | undefined;
};

/** The fields of an objective. */
type ObjectiveField = keyof RecipeObjective<unknown>;

/** The tables, without what is particular to each. */
const TABLES: readonly CatalogueTable[] = Object.values(CATALOGUE_TABLES);

/** The keys of a run's configuration that entries of the catalogue stand for. */
export const CATALOGUE_KEYS: readonly Path[] = TABLES.map(({ field }) => ["agent", field]);

/** A place of an objective that may have an id. */
export interface ObjectivePlace {
  /** In the recipe. */
  place: Path;
  /** The key that the entry stands for. */
  key: Path;
  /** The key of its id. */
  id_key: Path;
  given: unknown;
}

/** The places of an objective, those without a value too. A list has as many as it has values. */
export function objectivePlaces(objective: RecipeObjective<unknown>): ObjectivePlace[] {
  return TABLES.flatMap(({ field, is_list, keys }) => {
    const given = objective[field as ObjectiveField];
    const found: [Path, unknown][] = is_list
      ? (given as unknown[] | undefined ?? []).map((id, i) => [[field, i], id])
      : [[[field], given]];
    return found.map(([at, given]) => {
      const key = ["agent", ...at];
      return { place: ["objective", ...at], key, id_key: keys ? [...key, "id"] : key, given };
    });
  });
}

/** The ids of an objective, without values that are not ids. */
export function objectiveIds(objective: RecipeObjective<unknown>): RecipeObjective<string> {
  const isId = (given: unknown) => typeof given === "string";
  const ids = TABLES.map(({ field, is_list }) => {
    const given = objective[field as ObjectiveField];
    return [
      field,
      is_list ? (given as unknown[] | undefined)?.filter(isId) : isId(given) ? given : undefined,
    ];
  });
  return Object.fromEntries(ids.filter(([, given]) => given !== undefined));
}
