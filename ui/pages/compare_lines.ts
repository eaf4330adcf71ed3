/** The lines of compared runs in one chart. */

import type { AlignedMetric, Sample } from "../../api/types.ts";
import type { Line } from "../parts/drawing.ts";
import { DASHES, letterOf } from "../parts/run_signs.ts";

/** What the x of a chart is. The server has these for every update. */
export const AXES = { update: "updates", step: "optimiser steps", time: "time since the start" } as const;

export type Axis = keyof typeof AXES;

/** The place of an update on the x axis; null where it is not known. */
export type Placing = (update: number) => number | null;

/** Updates as they are. */
export const byUpdate: Placing = (update) => update;

/** Updates by their step or their seconds since the start, as the samples of any metric tell. */
export function placingOf(
  samples: readonly Pick<Sample, "update" | "step" | "time">[],
  { axis, started_at }: { axis: Axis; started_at: string },
): Placing {
  if (axis === "update") return byUpdate;
  const start = Date.parse(started_at);
  const places = new Map(samples.map(({ update, step, time }) => [
    update,
    axis === "step" ? step : (Date.parse(time) - start) / 1000,
  ]));
  return (update) => places.get(update) ?? null;
}

/** A line for each run that has the metric. A point lies at the last update that it is the mean of. */
export function linesOf({ points }: AlignedMetric, placings: readonly Placing[]): Line[] {
  return placings.flatMap((placing, run): Line[] => {
    const x: number[] = [], values: number[] = [];
    for (const { last_update, values: of_runs } of points) {
      const value = of_runs[run] ?? null, place = placing(last_update);
      // What a run repeats after it was resumed has one place.
      if (value === null || place === null || place <= (x.at(-1) ?? -Infinity)) continue;
      x.push(place);
      values.push(value);
    }
    if (x.length === 0) return [];
    return [{ label: letterOf(run), colour: run + 1, dash: DASHES[run % DASHES.length]!, x, values }];
  });
}
