/** The scenarios of a run over its updates, from the index of the observe directory. */

import type { IndexedGroup } from "../../agent/results/observed.ts";
import type { IndexView } from "./observed_index.ts";
import type { ScenarioGroup, ScenarioView } from "./shapes.ts";

type Rates = Omit<ScenarioGroup, "update" | "group" | "time" | "status" | "texts_kept">;

/** Groups that are counted without a pause. */
const PAUSE_GROUPS = 20_000;

/**
 * Scenarios in the order of their file, each with its updates in order. Other work of the thread goes on in between.
 *
 * @param only The id of the only scenario that is wanted.
 */
export async function scenariosOf({ updates }: IndexView, only?: string): Promise<ScenarioView[]> {
  const by_scenario = new Map<string, { update: number; groups: IndexedGroup[] }[]>();
  let counted = 0;
  for (const { update, groups } of updates) {
    if ((counted += groups.length) >= PAUSE_GROUPS) {
      await new Promise((resolve) => setTimeout(resolve));
      counted = 0;
    }
    for (const group of groups) {
      if (only !== undefined && group.scenario !== only) continue;
      const rows = by_scenario.get(group.scenario) ?? [];
      by_scenario.set(group.scenario, rows);
      if (rows.at(-1)?.update === update) rows.at(-1)!.groups.push(group);
      else rows.push({ update, groups: [group] });
    }
  }
  const views = [...by_scenario].map(([scenario, rows]) => ({
    scenario,
    line: rows[0]!.groups[0]!.line,
    ...ratesOf(rows.flatMap(({ groups }) => groups)),
    updates: rows.map(({ update, groups }) => ({ update, ...ratesOf(groups) })),
  }));
  return views.sort((a, b) => a.line - b.line || (a.scenario < b.scenario ? -1 : 1));
}

/** The groups of a scenario, in the order of updates. */
export function scenarioGroups({ updates }: IndexView, scenario: string): ScenarioGroup[] {
  return updates.flatMap(({ update, time, texts_kept, groups }) =>
    groups.filter((group) => group.scenario === scenario).map((group) => {
      const { status } = group;
      return { update, group: group.group, time, status, ...ratesOf([group]), texts_kept };
    })
  );
}

/** Sums over groups; every attempt weighs the same. */
function ratesOf(groups: readonly IndexedGroup[]): Rates {
  const sum = (values: readonly number[]) => values.reduce((total, each) => total + each, 0);
  const attempts = sum(groups.map((group) => group.attempts));
  const passes = sum(groups.map((group) => group.passes));
  const rewards = sum(groups.map(({ reward_mean, attempts }) => (reward_mean ?? 0) * attempts));
  return {
    attempts,
    passes,
    failed: sum(groups.map(({ failed }) => failed)),
    pass_rate: attempts > 0 ? passes / attempts : null,
    reward_mean: attempts > 0 ? rewards / attempts : null,
  };
}
