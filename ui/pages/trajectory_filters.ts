/** The filters of a search for trajectories, as they stand in the address. */

import type { InputOf } from "../client/api.ts";
import { STOP_COLOURS } from "../parts/attempt.ts";

type SearchQuery = NonNullable<InputOf<"GET /v1/runs/{id}/trajectories/search">["query"]>;
/** What a trajectory must meet; an absent filter is met. */
export type SearchFilter = Omit<SearchQuery, "limit" | "cursor">;

/** Filters by name, in the order of the form. Their names are those of the API and of the address. */
const TEXTS = ["text", "scenario", "tool", "stop_reason", "failure"] as const;
const NUMBERS = ["min_reward", "max_reward"] as const;

type FilterName = (typeof TEXTS | typeof NUMBERS)[number];

/** The filters of an address. What is no number cannot bound a reward and is left out. */
export function filterOf(query: URLSearchParams): SearchFilter {
  const given: Partial<Record<FilterName, string | number>> = {};
  for (const name of TEXTS) {
    const value = query.get(name);
    if (value) given[name] = value;
  }
  for (const name of NUMBERS) {
    const text = query.get(name)?.trim(), value = Number(text);
    if (text && Number.isFinite(value)) given[name] = value;
  }
  return given as SearchFilter;
}

/** The address's query with one filter changed; an empty text removes it. */
export function queryWith(query: URLSearchParams, name: FilterName, value: string): Record<string, string> {
  const { [name]: _, ...others } = Object.fromEntries(query);
  return value.trim() === "" ? others : { ...others, [name]: value };
}

/** How an attempt may have ended. */
export const STOP_REASONS = Object.keys(STOP_COLOURS);

/** A table, so that the compiler finds one that is missing. */
const IS_BOUNDARY: Readonly<Record<NonNullable<SearchFilter["failure"]>, true>> = {
  prompt: true,
  tool: true,
  environment: true,
  reward: true,
  judge: true,
  infrastructure: true,
};

/** Where an attempt may have broken. */
export const BOUNDARIES = Object.keys(IS_BOUNDARY);
