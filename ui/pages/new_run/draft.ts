/** A recipe as a person writes it: every field is a text until it is sent. */

import type { Recipe, Run } from "../../../api/types.ts";
import type { ConfigKey } from "../../client/config_schema.ts";
import { anyValue, given, type Texts, valueOf } from "../../parts/typed.ts";
import { leafValues } from "../../parts/values.ts";
import { type Algorithm, ALGORITHMS, type Budget, hasKey } from "./algorithms.ts";

/** The fields of the form. An empty text stands for a field that is left out. */
export interface Draft {
  recipe: Algorithm;
  name: string;
  model: string;
  data: string;
  objective: { environment: string; reward: string; judge: string; mcp_servers: readonly string[] };
  budget: { updates: string; epochs: string; minutes: string };
  /** Further settings by dotted key. */
  params: Readonly<Record<string, string>>;
  allow: readonly NonNullable<Recipe["allow"]>[number][];
  limits: { vram: string; ram: string };
}

export const EMPTY_DRAFT: Draft = {
  recipe: "sft",
  ...{ name: "", model: "", data: "" },
  objective: { environment: "", reward: "", judge: "", mcp_servers: [] },
  budget: { updates: "", epochs: "", minutes: "" },
  params: {},
  allow: [],
  limits: { vram: "", ram: "" },
};

/** The text of a value, which `valueOf` reads again. */
function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

const asText = (text: string) => text;

/** The request of a draft, with the fields that its algorithm has. Values that are not given are left out. */
export function recipeOf(draft: Draft, keys: ReadonlyMap<string, ConfigKey>): Recipe {
  const { recipe, objective: { mcp_servers, ...ids }, name, model, data, allow, limits } = draft;
  const { data: { field }, has_objective, budget } = ALGORITHMS[recipe];
  const of = (texts: Texts, isOwn: (field: string) => boolean): Texts =>
    Object.fromEntries(Object.entries(texts).filter(([name]) => isOwn(name)));
  const servers = mcp_servers.length > 0 ? { mcp_servers: [...mcp_servers] } : null;
  const chosen = given(ids, asText);
  const fields: Record<string, unknown> = {
    ...given({ name, model, [field]: data }, asText),
    objective: has_objective && (chosen || servers) ? { ...chosen, ...servers } : null,
    budget: given(of(draft.budget, (name) => Object.hasOwn(budget, name)), anyValue),
    params: given(
      of(draft.params, (key) => hasKey(recipe, key)),
      (text, key) => valueOf(text, keys.get(key)?.type ?? null),
    ),
    allow: allow.length > 0 ? [...allow] : null,
    limits: given(limits, anyValue),
  };
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
  // Fields that are missing or of another type are the server's to refuse.
  return { recipe, ...present } as Recipe;
}

/** A field of the form that stands for a key of the configuration. */
interface KeyField {
  key: string;
  get(draft: Draft): string;
  set(draft: Draft, text: string): Draft;
}

/** The fields of an algorithm's recipe with the keys that they set. */
function fieldsOf(recipe: Algorithm): KeyField[] {
  const { data, budget, has_objective } = ALGORITHMS[recipe];
  const ids = { environment: "agent.environment.id", reward: "agent.reward", judge: "agent.judge.id" };
  return [
    { key: "run.algorithm", get: ({ recipe }) => recipe, set: (draft) => draft },
    { key: "model.path", get: ({ model }) => model, set: (draft, model) => ({ ...draft, model }) },
    { key: data.key, get: ({ data }) => data, set: (draft, data) => ({ ...draft, data }) },
    ...Object.entries(has_objective ? ids : {}).map(([name, key]): KeyField => ({
      key,
      get: ({ objective }) => objective[name as keyof typeof ids],
      set: (draft, id) => ({ ...draft, objective: { ...draft.objective, [name]: id } }),
    })),
    ...Object.entries(budget).map(([name, key]): KeyField => ({
      key,
      get: ({ budget }) => budget[name as Budget],
      set: (draft, limit) => ({ ...draft, budget: { ...draft.budget, [name]: limit } }),
    })),
  ];
}

const SERVERS_KEY = "agent.mcp_servers";

/** The ids of servers that are named by nothing else; null when a recipe cannot name one of them. */
function serverIds(servers: unknown): string[] | null {
  const ids = (servers as Record<string, unknown>[]).map((server) =>
    Object.keys(server).length === 1 && typeof server.id === "string" ? server.id : null
  );
  return ids.includes(null) ? null : ids as string[];
}

/**
 * A draft of another run like this: all that its author set, and none of what rules derived. The run's name, limits and
 * allowed degradations are not part of its configuration.
 *
 * @returns Null when a recipe cannot say it, or the run has no plan.
 */
export function draftOf(
  { algorithm, config, plan }: Pick<Run, "algorithm" | "config" | "plan">,
): Draft | null {
  if (!plan) return null;
  const fields = new Map(fieldsOf(algorithm).map((field) => [field.key, field]));
  let draft: Draft = { ...EMPTY_DRAFT, recipe: algorithm };
  for (const [key, value] of leafValues(config)) {
    // Ids of the catalogue have no source.
    if ((plan.sources[key] ?? "override") !== "override") continue;
    const field = fields.get(key), text = textOf(value);
    if (key === SERVERS_KEY) {
      const mcp_servers = serverIds(value);
      if (!mcp_servers) return null;
      draft = { ...draft, objective: { ...draft.objective, mcp_servers } };
    } else if (field) draft = field.set(draft, text);
    else draft = { ...draft, params: { ...draft.params, [key]: text } };
  }
  return draft;
}

/**
 * What a draft says of the configuration, without what the server would add to it: for a draft that cannot be planned.
 */
export function configOf(draft: Draft, keys: ReadonlyMap<string, ConfigKey>): Record<string, unknown> {
  const config: Record<string, unknown> = {}, { recipe, objective: { mcp_servers } } = draft;
  const { has_objective } = ALGORITHMS[recipe];
  const set = (key: string, value: unknown) => {
    const path = key.split("."), last = path.pop()!;
    let table = config;
    for (const part of path) table = (table[part] ??= {}) as Record<string, unknown>;
    table[last] = value;
  };
  const params = Object.entries(draft.params).filter(([key]) => hasKey(recipe, key));
  const texts = [...fieldsOf(recipe).map(({ key, get }): [string, string] => [key, get(draft)]), ...params];
  for (const [key, text] of texts) {
    if (text.trim() !== "") set(key, valueOf(text.trim(), keys.get(key)?.type ?? null));
  }
  if (has_objective && mcp_servers.length > 0) set(SERVERS_KEY, mcp_servers.map((id) => ({ id })));
  // As every recipe has them.
  config.checkpoint ??= {};
  if (has_objective) config.observe ??= {};
  return config;
}
