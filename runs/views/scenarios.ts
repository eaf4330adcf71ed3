/** The scenarios of a run over its updates, from the index of the observe directory. */

import type { IndexedGroup } from "../../agent/results/observed.ts";
import { Pauses } from "../../core/pauses.ts";
import type { IndexView } from "./observed_index.ts";
import type { ScenarioGroup, ScenarioView } from "./shapes.ts";

type Rates = Omit<ScenarioGroup, "update" | "group" | "time" | "status" | "texts_kept">;

/** Groups that are counted without a pause. */
const PAUSE_GROUPS = 20_000;

/** The groups of a scenario in one update. */
interface ScenarioRow {
  update: number;
  groups: IndexedGroup[];
}

/** A scenario that was counted, without its rates. */
export interface FoundScenario {
  scenario: string;
  line: number;
  /** In the order of updates. */
  rows: readonly ScenarioRow[];
}

/**
 * Scenarios in the order of their file. It pauses, so that other work of the thread can run.
 *
 * @param only The id of the only scenario that is wanted.
 */
export async function scenariosOf({ updates }: IndexView, only?: string): Promise<FoundScenario[]> {
  const by_scenario = new Map<string, ScenarioRow[]>();
  const pauses = new Pauses(PAUSE_GROUPS);
  for (const { update, groups } of updates) {
    await pauses.after(groups.length);
    for (const group of groups) {
      if (only !== undefined && group.scenario !== only) continue;
      const rows = by_scenario.get(group.scenario) ?? [];
      by_scenario.set(group.scenario, rows);
      if (rows.at(-1)?.update === update) rows.at(-1)!.groups.push(group);
      else rows.push({ update, groups: [group] });
    }
  }
  const found = [...by_scenario].map(([scenario, rows]) => ({
    scenario,
    line: rows[0]!.groups[0]!.line,
    rows,
  }));
  return found.sort((a, b) => a.line - b.line || (a.scenario < b.scenario ? -1 : 1));
}

/** A scenario with its rates, together and by update. */
export function scenarioView({ scenario, line, rows }: FoundScenario): ScenarioView {
  return {
    scenario,
    line,
    ...ratesOf(rows.flatMap(({ groups }) => groups)),
    updates: rows.map(({ update, groups }) => ({ update, ...ratesOf(groups) })),
  };
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
  let attempts = 0, passes = 0, failed = 0, rewards = 0;
  for (const group of groups) {
    attempts += group.attempts;
    passes += group.passes;
    failed += group.failed;
    rewards += (group.reward_mean ?? 0) * group.attempts;
  }
  return {
    ...{ attempts, passes, failed },
    pass_rate: attempts > 0 ? passes / attempts : null,
    reward_mean: attempts > 0 ? rewards / attempts : null,
  };
}
