/** What the server offers for a run: models, data and catalogue entries. */

import type { Dataset, Environment, Judge, McpServer, ModelFile, Reward } from "../../../api/types.ts";
import { type Algorithm, ALGORITHMS } from "./algorithms.ts";
import type { OfferedValues } from "./completion.ts";
import type { Draft } from "./draft.ts";
import { HELD_OUT } from "./field_names.ts";

export interface Offers {
  models: readonly ModelFile[];
  datasets: readonly Dataset[];
  environments: readonly Environment[];
  rewards: readonly Reward[];
  judges: readonly Judge[];
  mcp_servers: readonly McpServer[];
}

/** The only item; null when there are none or several. */
function only<T>(items: readonly T[]): T | null {
  return items.length === 1 ? items[0]! : null;
}

/** Datasets that an algorithm takes. */
export function datasetsFor(datasets: readonly Dataset[], recipe: Algorithm): Dataset[] {
  return datasets.filter(({ kind }) => kind === ALGORITHMS[recipe].data.kind);
}

/** The algorithm of the newest dataset that one takes, for a draft without data. */
export function algorithmFor({ datasets }: Pick<Offers, "datasets">): Algorithm | null {
  const names = Object.keys(ALGORITHMS) as Algorithm[];
  const fitting = datasets.map(({ kind }) => names.find((name) => ALGORITHMS[name].data.kind === kind));
  return fitting.find((name) => name !== undefined) ?? null;
}

/** A draft with a dataset, and the algorithm that takes it. */
export function draftWith(draft: Draft, dataset: Dataset, offers: Offers): Draft {
  const recipe = algorithmFor({ datasets: [dataset] }) ?? draft.recipe;
  return prefilled({ ...draft, recipe, data: dataset.id }, offers);
}

/** Models that an algorithm can train: agent_grpo needs one whose tool calls can be read. */
function modelsFor(models: readonly ModelFile[], recipe: Algorithm): ModelFile[] {
  const trainable = models.filter(({ type, trainable }) => type === "model" && trainable);
  if (recipe !== "agent_grpo") return trainable;
  return trainable.filter(({ tool_call_format: format }) => format !== null && format !== "none");
}

/** Fills the empty fields for which there is one choice. */
export function prefilled(draft: Draft, { models, datasets, environments }: Offers): Draft {
  const { model, data, objective: { environment, reward, judge } } = draft;
  const is_ungraded = environment === "" && reward === "" && judge === "";
  return {
    ...draft,
    model: model || (only(modelsFor(models, draft.recipe))?.path ?? ""),
    data: data || (only(datasetsFor(datasets, draft.recipe))?.id ?? ""),
    objective: {
      ...draft.objective,
      ...(is_ungraded && { environment: only(environments)?.id ?? "" }),
    },
  };
}

/** What the server offers as values of keys. */
export function offeredValues({ models, datasets, ...catalogue }: Offers): OfferedValues {
  const ids = (list: readonly { id: string; description: string }[]) =>
    list.map(({ id, description }) => ({ value: id, about: description }));
  const named = (list: readonly Dataset[]) => list.map(({ id, name }) => ({ value: id, about: name }));
  const data = Object.entries(ALGORITHMS).map(([name, { data: { key } }]) => [
    key,
    named(datasetsFor(datasets, name as Algorithm)),
  ]);
  return {
    ...Object.fromEntries(data),
    "model.path": models.map(({ path, name }) => ({ value: path, about: name ?? "" })),
    [HELD_OUT]: named(datasets),
    "agent.environment.id": ids(catalogue.environments),
    "agent.reward": ids(catalogue.rewards),
    "agent.judge.id": ids(catalogue.judges),
    "agent.mcp_servers.id": ids(catalogue.mcp_servers),
  };
}
