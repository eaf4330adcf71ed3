/** The rows of a comparison's tables, with a value for each run. */

import type { Comparison, RunComparison, RunScenario } from "../../api/types.ts";
import { leavesOf } from "./config_leaves.ts";

/** A key of the configurations. */
export interface KeyRow {
  key: string;
  /** JSON for each run; null where the key is not set. */
  values: (string | null)[];
  differs: boolean;
}

/** The keys that differ, as the server says. */
export function differingKeys({ configuration }: Pick<RunComparison, "configuration">): KeyRow[] {
  return configuration.map(({ key, values }) => ({
    key,
    values: values.map((value) => value === null ? null : JSON.stringify(value)),
    differs: true,
  }));
}

/** All keys by name: those that differ as the server says, the others from the runs' own configurations. */
export function allKeys(
  compared: Pick<RunComparison, "configuration">,
  configs: readonly Readonly<Record<string, unknown>>[],
): KeyRow[] {
  const rows = new Map(differingKeys(compared).map((row) => [row.key, row]));
  const leaves = configs.map((config) => new Map(leavesOf(config)));
  for (const key of new Set(leaves.flatMap((of_run) => [...of_run.keys()]))) {
    if (rows.has(key)) continue;
    rows.set(key, { key, values: leaves.map((of_run) => of_run.get(key) ?? null), differs: false });
  }
  return [...rows.values()].sort((a, b) => a.key < b.key ? -1 : 1);
}

/** What one run did with an example: its value, and whether that is better than the first run's. */
export interface Outcome {
  value: number;
  /** Null for the first run itself. */
  outcome: Comparison["outcomes"][number]["outcome"] | null;
}

/** A scenario or row of the held-out data. */
export interface ExampleRow {
  example: string;
  /** For each run; null where it was not measured, or cannot be compared. */
  outcomes: (Outcome | null)[];
}

/** The examples of all comparisons, in the order in which they come. The first run has the value `before`. */
export function exampleRows(comparisons: readonly Pick<Comparison, "outcomes">[]): ExampleRow[] {
  const rows = new Map<string, ExampleRow>();
  comparisons.forEach(({ outcomes }, i) => {
    for (const { example, before, after, outcome } of outcomes) {
      let row = rows.get(example);
      if (!row) {
        row = { example, outcomes: Array(comparisons.length + 1).fill(null) };
        row.outcomes[0] = { value: before, outcome: null };
        rows.set(example, row);
      }
      row.outcomes[i + 1] = { value: after, outcome };
    }
  });
  return [...rows.values()];
}

/** Whether a run did better or worse than the first one there. */
export function isDecided({ outcomes }: ExampleRow): boolean {
  return outcomes.some((of_run) => of_run?.outcome === "win" || of_run?.outcome === "loss");
}

/** A training scenario. */
export interface ScenarioRow {
  scenario: string;
  /** For each run; null where it did not meet the scenario. */
  runs: (RunScenario | null)[];
}

/** The scenarios of all runs: those that most runs met first, else in the order of the first run that met them. */
export function scenarioRows(lists: readonly (readonly RunScenario[])[]): ScenarioRow[] {
  const rows = new Map<string, ScenarioRow>();
  lists.forEach((list, i) => {
    for (const met of list) {
      let row = rows.get(met.scenario);
      if (!row) {
        row = { scenario: met.scenario, runs: Array(lists.length).fill(null) };
        rows.set(met.scenario, row);
      }
      row.runs[i] = met;
    }
  });
  const count = ({ runs }: ScenarioRow) => runs.filter((met) => met !== null).length;
  return [...rows.values()].sort((a, b) => count(b) - count(a));
}
