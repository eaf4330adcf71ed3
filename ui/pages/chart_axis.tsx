/** What the x of charts is: updates, optimiser steps, or the time since the start. */

import { useRef } from "preact/hooks";
import type { Run, Sample } from "../../api/types.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { useLoad } from "../client/use_call.ts";
import type { Line, XAxis, Zoom } from "../parts/drawing.ts";
import { durationText } from "../parts/format.ts";
import { AXES, type Axis, byUpdate, type Placing, placingOf } from "./compare_lines.ts";
import { changeQuery } from "./compare_view.ts";

/** The most samples of one answer. */
export const MAX_SAMPLES = 100_000;

/** Distances between ticks of time, in seconds. */
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 28_800, 86_400, 172_800];

export const X_AXES: Readonly<Record<Axis, XAxis>> = {
  update: { label: "update" },
  step: { label: "step" },
  time: { label: "time", text: durationText, distances: SECONDS },
};

/** What the places on an axis count. */
export const UNITS: Readonly<Record<Axis, string>> = { update: "update", step: "step", time: "second" };

/** The axis that an address names. */
export function axisOf(name: string | null): Axis {
  return name !== null && Object.hasOwn(AXES, name) ? name as Axis : "update";
}

/** The choice of the axis; it is kept in the address, and ends a zoom, which is in places of the axis. */
export function AxisChoice({ axis }: { axis: Axis }) {
  return (
    <label class="field">
      <span>Across</span>
      <select
        value={axis}
        onChange={({ currentTarget: { value } }) =>
          changeQuery({ x: value === "update" ? null : value, from: null, to: null })}
      >
        {Object.entries(AXES).map(([name, label]) => <option key={name} value={name}>{label}</option>)}
      </select>
    </label>
  );
}

/** Where the updates of a run lie on an axis. */
export interface Across {
  axis: Axis;
  placing: Placing;
  /** The updates of a part of the axis. */
  updatesIn(zoom: Zoom): Zoom;
}

const UPDATES: Across = { axis: "update", placing: byUpdate, updatesIn: (zoom) => zoom };

/** The updates, of those in samples, that lie in a part of an axis. */
export function updatesWithin(
  samples: readonly Pick<Sample, "update">[],
  placing: Placing,
  { from, to }: Zoom,
): Zoom {
  if (from === null && to === null) return { from, to };
  let first = Infinity, last = -Infinity;
  for (const { update } of samples) {
    const at = placing(update);
    if (at === null || at < (from ?? -Infinity) || at > (to ?? Infinity)) continue;
    first = Math.min(first, update);
    last = Math.max(last, update);
  }
  return first > last ? { from: null, to: null } : { from: first, to: last };
}

/** A line across another axis. A point whose update has no place there, or not a later one, is left out. */
export function placedLine(line: Line, placing: Placing): Line {
  const kept: number[] = [], x: number[] = [];
  for (const [i, update] of line.x.entries()) {
    const at = placing(update);
    if (at === null || at <= (x.at(-1) ?? -Infinity)) continue;
    kept.push(i);
    x.push(at);
  }
  const of = (values: readonly (number | null)[]) => kept.map((i) => values[i] ?? null);
  const { band, ...rest } = line;
  return {
    ...rest,
    x,
    values: of(line.values),
    ...(band && { band: { low: of(band.low), high: of(band.high) } }),
  };
}

/** Where a run's updates lie on an axis, by the samples of its main metric; updates until these are there. */
export function useAcross({ id, algorithm, started_at, created_at, progress }: Run, axis: Axis): Across {
  // Further samples are asked for from where the last answer ended.
  const known = useRef<{ id: string; samples: readonly Sample[]; since: number }>({
    id,
    samples: [],
    since: 0,
  });
  const { value } = useLoad(
    async (api, signal): Promise<Across> => {
      if (axis === "update") return UPDATES;
      const { samples: before, since } = known.current.id === id ? known.current : { samples: [], since: 0 };
      const query = { names: [MAIN_METRIC[algorithm]], limit: MAX_SAMPLES, since };
      const answer = await api.call("GET /v1/runs/{id}/metrics", { params: { id }, query, signal });
      const samples = "samples" in answer ? [...before, ...answer.samples] : before;
      known.current = { id, samples, since: answer.next_since };
      const placing = placingOf(samples, { axis, started_at: started_at ?? created_at });
      return { axis, placing, updatesIn: (zoom) => updatesWithin(samples, placing, zoom) };
    },
    id,
    { version: [axis, axis === "update" ? 0 : progress.update] },
  );
  return axis === "update" ? UPDATES : value ?? UPDATES;
}
