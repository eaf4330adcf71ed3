/** The metrics of a run as charts, in sections by the first part of their names. */

import type { ComponentChildren } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Run } from "../../api/types.ts";
import type { LiveRun } from "../client/live_run.ts";
import { MAIN_METRIC } from "../client/main_metric.ts";
import { marksAt } from "../client/marks.ts";
import { BUCKETS, detailOf, isCoarse, type Series, withDetail } from "../client/series.ts";
import { useLoad } from "../client/use_call.ts";
import { STOP_COLOURS, wordsOf } from "../parts/attempt.ts";
import { Chart } from "../parts/chart.tsx";
import type { Line, Zoom } from "../parts/drawing.ts";
import { LIVE_STATES } from "../parts/state_badge.tsx";
import { place, replacePlace } from "../routes.ts";
import { type Across, AxisChoice, axisOf, placedLine, UNITS, useAcross, X_AXES } from "./chart_axis.tsx";

/** Sections that people look at first; the others follow by name. */
const FIRST_SECTIONS = ["reward", "eval", "loss", "group", "kl", "agent", "stop", "failure", "policy"];
/** Sections that are open at first. */
const OPEN_SECTIONS: ReadonlySet<string> = new Set(["reward", "eval", "loss", "group", "kl"]);
/** Metrics that are drawn as the band of another one. */
const BANDS: Readonly<Record<string, { low: string; high: string }>> = {
  "reward/mean": { low: "reward/min", high: "reward/max" },
};
const IN_BANDS: ReadonlySet<string> = new Set(Object.values(BANDS).flatMap(({ low, high }) => [low, high]));
/** The strongest smoothing: a weight of 1 would never move. */
const MAX_SMOOTHING = 0.99;

const sectionOf = (name: string) => name.split("/")[0]!;

function rankOf(section: string): number {
  const at = FIRST_SECTIONS.indexOf(section);
  return at < 0 ? FIRST_SECTIONS.length : at;
}

/** What was there in its order, without what is gone, and behind it what is new: nothing that is shown moves. */
export function arrived(before: readonly string[], now: readonly string[]): string[] {
  return [...before.filter((name) => now.includes(name)), ...now.filter((name) => !before.includes(name))];
}

/** The names of metrics as they are shown when all of them are there at once. */
export function inOrder(names: Iterable<string>): string[] {
  const shown = [...names].filter((name) => !IN_BANDS.has(name)).sort();
  return shown.sort((a, b) => {
    const [one, other] = [sectionOf(a), sectionOf(b)];
    return rankOf(one) - rankOf(other) || (one < other ? -1 : one > other ? 1 : 0);
  });
}

/** Names by section, both in their order. */
export function sectionsOf(names: readonly string[]): [section: string, names: string[]][] {
  const sections = new Map<string, string[]>();
  for (const name of names) {
    const section = sectionOf(name), others = sections.get(section);
    if (others) others.push(name);
    else sections.set(section, [name]);
  }
  return [...sections];
}

/** Whether a name matches what was typed: a regular expression, or a part of the name when it is none. */
export function matches(name: string, typed: string): boolean {
  try {
    return new RegExp(typed, "i").test(name);
  } catch {
    return name.toLowerCase().includes(typed.toLowerCase());
  }
}

/** A metric with its band: of other metrics, or of its own values where a point is over several. */
export function lineOf(name: string, all: ReadonlyMap<string, Series>): Line {
  const { updates, values, low, high, counts } = all.get(name)!, edges = BANDS[name];
  const below = edges && all.get(edges.low)?.low, above = edges && all.get(edges.high)?.high;
  const band = below && above
    ? { low: below, high: above }
    : counts.some((n) => n > 1)
    ? { low, high }
    : null;
  const is_share = /(_fraction|pass_rate)$/.test(name);
  // The title is its name.
  return { label: name, legend: "value", is_share, colour: 1, x: updates, values, ...(band && { band }) };
}

/** Metrics of which only the parts together say something: a chart of stacked bars. */
interface Parts {
  title: string;
  /** Whether runs of all algorithms have it; absent: those with attempts. */
  is_general?: true;
  metrics: readonly (readonly [metric: string, label: string, colour: number])[];
}

/** What is shown above all sections, where a run has it. */
const PARTS: readonly Parts[] = [
  {
    title: "How attempts ended",
    metrics: Object.entries(STOP_COLOURS).map(([reason, colour]) =>
      [`stop/${reason}`, wordsOf(reason), colour] as const
    ),
  },
  {
    title: "Seconds of an update",
    is_general: true,
    metrics: [["time/rollout_seconds", "rollouts", 1], ["time/train_seconds", "training", 2]],
  },
  {
    title: "Seconds of all attempts",
    metrics: [
      ["time/generate_seconds", "model", 1],
      ["time/tools_seconds", "tools", 2],
      ["time/reward_seconds", "grading and judge", 3],
    ],
  },
];

const PART_METRICS = PARTS.flatMap(({ metrics }) => metrics.map(([metric]) => metric));

/** The bars of parts that a run has; those that are 0 throughout are left out. */
export function barsOf({ metrics }: Parts, all: ReadonlyMap<string, Series>): Line[] {
  return metrics.flatMap(([metric, label, colour]) => {
    const series = all.get(metric);
    if (!series?.values.some((value) => value !== null && value !== 0)) return [];
    return [{ label, colour, x: series.updates, values: series.values }];
  });
}

/** The most metrics that are named in a request. */
const MAX_NAMES = 200;

/**
 * Metrics for charts, with those of their bands: where the buckets of the whole run are too coarse for the part that is
 * shown, it has buckets of its own.
 */
function useZoomed(
  { series, revision, run }: LiveRun,
  { from, to }: Zoom,
  metrics: readonly string[],
): ReadonlyMap<string, Series> {
  const all = series.value, is_zoomed = from !== null || to !== null;
  const names = metrics.flatMap((name) => [name, ...Object.values(BANDS[name] ?? {})]);
  const is_detailed = is_zoomed && names.length > 0 && isCoarse(all);
  const query = {
    buckets: BUCKETS,
    ...(names.length <= MAX_NAMES && { names }),
    ...(from !== null && { first_update: from }),
    ...(to !== null && { last_update: Math.max(to, from ?? 0) }),
  };
  const { value: detail } = useLoad(
    async (api, signal) => {
      if (!is_detailed) return null;
      const params = { id: run.value!.id };
      const answer = await api.call("GET /v1/runs/{id}/metrics", { params, query, signal });
      return "buckets" in answer ? detailOf(answer, from ?? 0) : null;
    },
    JSON.stringify(is_detailed ? query : null),
    { version: revision.value },
  );
  return useMemo(() => {
    if (!detail) return all;
    return withDetail(new Map([...all].filter(([name]) => names.includes(name))), detail);
  }, [all, detail]);
}

function RunChart({ live, lines, options: { smoothing, is_log, zoom, across }, ...props }: {
  live: LiveRun;
  title: string;
  lines: readonly Line[];
  options: RunOptions;
  is_stacked?: boolean;
  note?: string;
  legend_entries?: number;
}) {
  const { axis, placing } = across;
  const marks = live.marks.value.flatMap(({ update, text }) => {
    const at = placing(update);
    return at === null ? [] : [{ update: at, text }];
  });
  return (
    <Chart
      cursor="run"
      {...props}
      lines={axis === "update" ? lines : lines.map((line) => placedLine(line, placing))}
      x_axis={X_AXES[axis]}
      {...{ smoothing, is_log, zoom, onZoom: changeZoom }}
      marksAt={(places) => marksAt(marks, places)}
    />
  );
}

/** The charts that say at a glance how a run goes; parts without a value only where they may get one. */
export function glanceTitles(
  algorithm: Run["algorithm"],
  { all, is_awaited }: { all: ReadonlyMap<string, Series>; is_awaited: boolean },
): string[] {
  const main = MAIN_METRIC[algorithm];
  const parts = PARTS.filter((parts) =>
    barsOf(parts, all).length > 0 || is_awaited && (parts.is_general || algorithm === "agent_grpo")
  );
  return [...(is_awaited || all.has(main) ? [main] : []), ...parts.map(({ title }) => title)];
}

/** Why a run has no values yet. */
function noValuesNote({ has_metrics }: LiveRun, state: Run["state"]): string {
  return !has_metrics.value
    ? "loading …"
    : LIVE_STATES.has(state)
    ? "no update has ended yet"
    : "it ended before its first update";
}

/** Entries of a legend for which there is room from the start; few runs have more. */
const LEGEND_ENTRIES = 5;

/** They have their places from the start, also before a live run has values, so that nothing moves when these come. */
function Glance({ live, run: { algorithm, state }, options }: {
  live: LiveRun;
  run: Run;
  options: RunOptions;
}) {
  const main = MAIN_METRIC[algorithm],
    order = useRef<string[]>([]),
    [was_live] = useState(LIVE_STATES.has(state));
  const all = useZoomed(live, options.across.updatesIn(options.zoom), [main, ...PART_METRICS]);
  const is_awaited = was_live || !live.has_metrics.value || all.size === 0;
  order.current = arrived(order.current, glanceTitles(algorithm, { all, is_awaited }));
  const note = all.has(main) ? {} : { note: noValuesNote(live, state) };
  return (
    <div class="charts glance">
      {order.current.map((title) => {
        const parts = PARTS.find((parts) => parts.title === title);
        if (!parts) {
          const lines = all.has(main) ? [lineOf(main, all)] : [];
          return <RunChart key={title} {...{ live, title, lines, options }} {...note} />;
        }
        return (
          <RunChart
            key={title}
            live={live}
            title={title}
            lines={barsOf(parts, all)}
            options={{ ...options, smoothing: 0, is_log: false }}
            legend_entries={Math.min(LEGEND_ENTRIES, parts.metrics.length)}
            is_stacked
            {...note}
          />
        );
      })}
    </div>
  );
}

interface Options {
  typed: string;
  smoothing: number;
  is_log: boolean;
  zoom: Zoom;
}

/** The options of a run's charts, and where its updates lie on their x axis. */
type RunOptions = Options & { across: Across };

/** How charts are drawn, as the address says. */
export function optionsOf(query: URLSearchParams): Options {
  const place = (name: string) => /^\d{1,15}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : null;
  const weight = Number(query.get("smoothing") ?? 0);
  return {
    typed: query.get("metrics") ?? "",
    smoothing: Number.isFinite(weight) ? Math.min(MAX_SMOOTHING, Math.max(0, weight)) : 0,
    is_log: query.get("scale") === "log",
    zoom: { from: place("from"), to: place("to") },
  };
}

function change(values: Readonly<Record<string, string | number | null>>): void {
  const { segments, query } = place.value;
  replacePlace(segments, { ...Object.fromEntries(query), ...values });
}

/** Shows a part of all charts; it is kept in the address. */
export function changeZoom({ from, to }: Zoom): void {
  change({ from, to });
}

/** The choice of metrics, and how they are drawn; it is kept in the address. */
export function ChartOptions({ typed, smoothing, is_log, zoom, unit = "update", children }: Options & {
  /** What the x of the charts counts. */
  unit?: string;
  /** Further fields. */
  children?: ComponentChildren;
}) {
  return (
    <form class="filters" aria-label="how charts are drawn" onSubmit={(event) => event.preventDefault()}>
      <label class="field">
        <span>Metrics</span>
        <input
          type="search"
          placeholder="reward|kl"
          value={typed}
          onInput={({ currentTarget }) => change({ metrics: currentTarget.value })}
        />
      </label>
      {children}
      <label class="field">
        <span>Smoothing {smoothing.toFixed(2)}</span>
        <input
          type="range"
          min="0"
          max={MAX_SMOOTHING}
          step="0.01"
          value={smoothing}
          onInput={({ currentTarget: { value } }) => change({ smoothing: value === "0" ? null : value })}
        />
      </label>
      {(["from", "to"] as const).map((edge) => (
        <label key={edge} class="field">
          <span>{edge === "from" ? "From" : "To"} {unit}</span>
          <input
            type="number"
            class="zoom-edge"
            min="0"
            value={zoom[edge] ?? ""}
            placeholder={edge === "from" ? "first" : "last"}
            onInput={({ currentTarget }) => change({ [edge]: currentTarget.value })}
          />
        </label>
      ))}
      <label class="check">
        <input
          type="checkbox"
          checked={is_log}
          onChange={({ currentTarget }) => change({ scale: currentTarget.checked ? "log" : null })}
        />
        Logarithmic
      </label>
      <p class="quiet">Drag to zoom in, double click to zoom out.</p>
    </form>
  );
}

/** A section of charts, which are made when it is opened. */
function Section({ name, metrics, live, options }: {
  name: string;
  metrics: readonly string[];
  live: LiveRun;
  options: RunOptions;
}) {
  const [is_open, setOpen] = useState(OPEN_SECTIONS.has(name)), is_shown = is_open || options.typed !== "";
  const all = useZoomed(live, options.across.updatesIn(options.zoom), is_shown ? metrics : []);
  return (
    <details open={is_shown} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {name} <span class="quiet">{metrics.length}</span>
      </summary>
      {is_shown && (
        <div class="charts">
          {metrics.map((metric) => (
            <RunChart
              key={metric}
              live={live}
              title={metric}
              lines={[lineOf(metric, all)]}
              options={options}
            />
          ))}
        </div>
      )}
    </details>
  );
}

export function RunCharts({ live, run }: { live: LiveRun; run: Run }) {
  const main = MAIN_METRIC[run.algorithm];
  const wanted = axisOf(place.value.query.get("x")), across = useAcross(run, wanted);
  const options = { ...optionsOf(place.value.query), across }, all = live.series.value;
  const is_whole = options.typed === "";
  const order = useRef<string[]>([]);
  order.current = useMemo(() => arrived(order.current, inOrder(all.keys())), [all.size]);
  // The main metric is the first chart of all.
  const names = order.current.filter((name) => is_whole ? name !== main : matches(name, options.typed));
  const sections = sectionsOf(names);
  return (
    <section aria-label="charts">
      <ChartOptions {...options} unit={UNITS[wanted]}>
        <AxisChoice axis={wanted} />
      </ChartOptions>
      {is_whole && <Glance live={live} run={run} options={options} />}
      {all.size > 0 && names.length === 0 && <p class="quiet">No metric has such a name.</p>}
      {sections.map(([name, metrics]) => (
        <Section key={name} name={name} metrics={metrics} live={live} options={options} />
      ))}
    </section>
  );
}
