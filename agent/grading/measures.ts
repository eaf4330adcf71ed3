/** Measures of graders: the shared ones, and those that a grader returns. */

import { assert } from "../../core/errors.ts";
import type { Group, Measure } from "../trajectory/group.ts";
import type { Grader, GroupGrades, SharedMeasure } from "./grader.ts";

/** The value for one group: `grades` is null when the grader gave no usable answer. Null: nothing to measure. */
const SHARED_MEASURES: Readonly<
  Record<SharedMeasure, (grades: GroupGrades["grades"] | null) => number | null>
> = {
  failed_fraction: (grades) => grades ? 0 : 1,
  degenerate_group_fraction: (grades) => {
    if (!grades) return null;
    return new Set(grades.flatMap(({ assessment }) => assessment?.score ?? [])).size === 1 ? 1 : 0;
  },
};

/**
 * Adds its grader's measures to a group: those that the grader returned, and the shared ones that apply to it. A group
 * without completed attempts gets no shared ones.
 *
 * @param answer Null when the grader gave no usable answer.
 */
export function addMeasures(
  group: Group,
  { source, shared_measures }: Pick<Grader, "source" | "shared_measures">,
  { answer, attempts }: { answer: GroupGrades | null; attempts: number },
): void {
  const add = (name: string, measure: Measure) => {
    assert(/^[a-z0-9_]+$/.test(name), `a measure's name of a-z, 0-9 and _, not ${name}`);
    const metric = `${source}/${name}`;
    assert(!Object.hasOwn(group.measures, metric), `${metric} has one meaning`);
    group.measures[metric] = measure;
  };
  for (const name of attempts > 0 ? shared_measures : []) {
    const value = SHARED_MEASURES[name](answer && answer.grades);
    if (value !== null) add(name, { value, over_groups: "mean" });
  }
  for (const [name, measure] of Object.entries(answer?.measures ?? {})) add(name, measure);
}
