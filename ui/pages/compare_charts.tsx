/** The metrics of several runs, each in one chart. */

import type { Run } from "../../api/types.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { useLoad } from "../client/use_call.ts";
import { Chart } from "../parts/chart.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { place } from "../routes.ts";
import { AxisChoice, axisOf, MAX_SAMPLES, UNITS, X_AXES } from "./chart_axis.tsx";
import { type Axis, byUpdate, linesOf, type Placing, placingOf } from "./compare_lines.ts";
import type { ComparedProps } from "./compare_view.ts";
import { changeZoom, ChartOptions, inOrder, matches, optionsOf, sectionsOf } from "./run_charts.tsx";

/** Sections that are open at first. */
const OPEN_SECTIONS = 4;

/** Where the updates of the runs lie on an axis: by the samples of their main metric. */
function usePlacings(runs: readonly Run[], axis: Axis) {
  return useLoad(
    async (api, signal): Promise<{ axis: Axis; placings: Placing[] }> => {
      if (axis === "update") return { axis, placings: runs.map(() => byUpdate) };
      const placings = await Promise.all(runs.map(async ({ id, algorithm, started_at, created_at }) => {
        const query = { names: [MAIN_METRIC[algorithm]], limit: MAX_SAMPLES };
        const answer = await api.call("GET /v1/runs/{id}/metrics", { params: { id }, query, signal });
        const samples = "samples" in answer ? answer.samples : [];
        return placingOf(samples, { axis, started_at: started_at ?? created_at });
      }));
      return { axis, placings };
    },
    JSON.stringify(runs.map(({ id }) => id)),
    { version: [axis, runs.map(({ progress }) => progress.update)] },
  );
}

export function CompareCharts({ runs, compared }: ComparedProps) {
  const options = optionsOf(place.value.query), { typed, smoothing, is_log, zoom } = options;
  const wanted = axisOf(place.value.query.get("x"));
  const placed = usePlacings(runs, wanted),
    metrics = new Map(compared.metrics.map((each) => [each.name, each]));
  const { axis, placings } = placed.value ?? { axis: "update", placings: runs.map(() => byUpdate) };
  const names = [...metrics.keys()].filter((name) => matches(name, typed));
  return (
    <section aria-label="charts">
      <ChartOptions {...options} unit={UNITS[axis]}>
        <AxisChoice axis={wanted} />
      </ChartOptions>
      {placed.error !== null && <ProblemBox error={placed.error} onRetry={placed.retry} />}
      {metrics.size === 0 && <p class="loading">No run has ended an update yet.</p>}
      {metrics.size > 0 && names.length === 0 && <p>No metric has such a name.</p>}
      {sectionsOf(inOrder(names)).map(([section, names], i) => (
        <details key={section} open={i < OPEN_SECTIONS || typed !== ""}>
          <summary>{section}</summary>
          <div class="charts">
            {names.map((name) => (
              <Chart
                key={name}
                title={name}
                cursor="compare"
                lines={linesOf(metrics.get(name)!, placings)}
                smoothing={smoothing}
                is_log={is_log}
                x_axis={X_AXES[axis]}
                zoom={zoom}
                onZoom={changeZoom}
              />
            ))}
          </div>
        </details>
      ))}
    </section>
  );
}
