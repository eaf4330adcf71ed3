/** The metrics of a run as charts, in sections by the first part of their names. */

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { LiveRun } from "../client/live_run.ts";
import type { Series } from "../client/series.ts";
import { Chart } from "../parts/chart.tsx";
import type { Line } from "../parts/drawing.ts";
import { place, replacePlace } from "../routes.ts";

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

/** The names of metrics by section, in the order in which they are shown. */
export function sectionsOf(names: Iterable<string>): [section: string, names: string[]][] {
  const sections = new Map<string, string[]>();
  for (const name of [...names].filter((name) => !IN_BANDS.has(name)).sort()) {
    const section = sectionOf(name), others = sections.get(section);
    if (others) others.push(name);
    else sections.set(section, [name]);
  }
  const rank = (section: string) => {
    const at = FIRST_SECTIONS.indexOf(section);
    return at < 0 ? FIRST_SECTIONS.length : at;
  };
  return [...sections].sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1));
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
  return { label: name, colour: 1, x: updates, values, ...(band && { band }) };
}

/** Metrics of which only the parts together say something: a chart of stacked bars. */
interface Parts {
  title: string;
  metrics: readonly (readonly [metric: string, label: string, colour: number])[];
}

/** What is shown above all sections, where a run has it. */
const PARTS: readonly Parts[] = [
  {
    title: "How attempts ended",
    metrics: [
      ["stop/submitted", "submitted", 1],
      ["stop/completed", "completed", 3],
      ["stop/no_tool_call", "no tool call", 6],
      ["stop/max_turns", "max turns", 5],
      ["stop/max_turn_tokens", "max turn tokens", 2],
      ["stop/max_trajectory_tokens", "max trajectory tokens", 4],
      ["stop/timeout", "timeout", 8],
      ["stop/tool_failed", "tool failed", 9],
      ["stop/environment_failed", "environment failed", 10],
      ["stop/cancelled", "cancelled", 7],
    ],
  },
  {
    title: "Seconds of an update",
    metrics: [["time/rollout_seconds", "rollouts", 1], ["time/train_seconds", "training", 2]],
  },
  {
    title: "Seconds, summed over attempts",
    metrics: [
      ["time/generate_seconds", "model", 1],
      ["time/tools_seconds", "tools", 2],
      ["time/reward_seconds", "grading and judge", 3],
    ],
  },
];

/** The bars of parts that a run has; those that are 0 throughout are left out. */
export function barsOf({ metrics }: Parts, all: ReadonlyMap<string, Series>): Line[] {
  return metrics.flatMap(([metric, label, colour]) => {
    const series = all.get(metric);
    if (!series?.values.some((value) => value !== null && value !== 0)) return [];
    return [{ label, colour, x: series.updates, values: series.values }];
  });
}

/** The charts that say at a glance how a run goes. */
function Glance({ all, main, options }: {
  all: ReadonlyMap<string, Series>;
  main: string;
  options: { smoothing: number; is_log: boolean };
}) {
  const bars = PARTS.map((parts) => ({ title: parts.title, lines: barsOf(parts, all) }));
  return (
    <div class="charts">
      {all.has(main) && <Chart title={main} cursor="run" lines={[lineOf(main, all)]} {...options} />}
      {bars.filter(({ lines }) => lines.length > 0).map(({ title, lines }) => (
        <Chart key={title} title={title} cursor="run" lines={lines} smoothing={0} is_log={false} is_stacked />
      ))}
    </div>
  );
}

/** How charts are drawn, as the address says. */
export function optionsOf(query: URLSearchParams): { typed: string; smoothing: number; is_log: boolean } {
  const weight = Number(query.get("smoothing") ?? 0);
  return {
    typed: query.get("metrics") ?? "",
    smoothing: Number.isFinite(weight) ? Math.min(MAX_SMOOTHING, Math.max(0, weight)) : 0,
    is_log: query.get("scale") === "log",
  };
}

function change(name: string, value: string | null): void {
  const { segments, query } = place.value;
  replacePlace(segments, { ...Object.fromEntries(query), [name]: value });
}

/** The choice of metrics, and how they are drawn; it is kept in the address. */
export function ChartOptions({ typed, smoothing, is_log, children }: ReturnType<typeof optionsOf> & {
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
          onInput={({ currentTarget }) => change("metrics", currentTarget.value)}
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
          onInput={({ currentTarget: { value } }) => change("smoothing", value === "0" ? null : value)}
        />
      </label>
      <label class="check">
        <input
          type="checkbox"
          checked={is_log}
          onChange={({ currentTarget }) => change("scale", currentTarget.checked ? "log" : null)}
        />
        Logarithmic
      </label>
      <p class="quiet">Drag to zoom in, double click to zoom out.</p>
    </form>
  );
}

/** A section of charts, which are made when it is opened. */
function Section({ name, metrics, all, options }: {
  name: string;
  metrics: readonly string[];
  all: ReadonlyMap<string, Series>;
  options: ReturnType<typeof optionsOf>;
}) {
  const [is_open, setOpen] = useState(OPEN_SECTIONS.has(name)), is_shown = is_open || options.typed !== "";
  return (
    <details open={is_shown} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>
        {name} <span class="quiet">{metrics.length}</span>
      </summary>
      {is_shown && (
        <div class="charts">
          {metrics.map((metric) => (
            <Chart
              key={metric}
              title={metric}
              cursor="run"
              lines={[lineOf(metric, all)]}
              smoothing={options.smoothing}
              is_log={options.is_log}
            />
          ))}
        </div>
      )}
    </details>
  );
}

export function RunCharts({ live, main }: {
  live: LiveRun;
  /** The metric that says whether the run learns. */
  main: string;
}) {
  const all = live.series.value, options = optionsOf(place.value.query);
  const is_whole = options.typed === "";
  // The main metric is the first chart of all.
  const names = [...all.keys()].filter((name) => is_whole ? name !== main : matches(name, options.typed));
  const sections = useMemo(() => sectionsOf(names), [names.join()]);
  return (
    <section aria-label="charts">
      <ChartOptions {...options} />
      {all.size === 0 && (
        <p class="loading" role="status">
          {live.has_metrics.value ? "The first update has not ended yet." : "Loading the charts …"}
        </p>
      )}
      {is_whole && <Glance all={all} main={main} options={options} />}
      {all.size > 0 && names.length === 0 && <p class="quiet">No metric has such a name.</p>}
      {sections.map(([name, metrics]) => (
        <Section key={name} name={name} metrics={metrics} all={all} options={options} />
      ))}
    </section>
  );
}
