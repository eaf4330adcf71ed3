/** The metrics of a run as charts, in sections by the first part of their names. */

import { useMemo, useState } from "preact/hooks";
import type { LiveRun } from "../client/live_run.ts";
import type { Series } from "../client/series.ts";
import { Chart } from "../parts/chart.tsx";
import type { Line } from "../parts/drawing.ts";

/** Sections that people look at first; the others follow by name. */
const FIRST_SECTIONS = ["reward", "eval", "loss", "group", "kl", "agent", "stop", "failure", "policy"];
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

export function RunCharts({ live }: { live: LiveRun }) {
  const [typed, setTyped] = useState(""), [smoothing, setSmoothing] = useState(0);
  const [is_log, setLog] = useState(false), all = live.series.value;
  const names = [...all.keys()].filter((name) => matches(name, typed));
  const sections = useMemo(() => sectionsOf(names), [names.join()]);
  return (
    <section aria-label="charts">
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <label class="field">
          <span>Metrics</span>
          <input
            type="search"
            placeholder="reward|kl"
            value={typed}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
          />
        </label>
        <label class="field">
          <span>Smoothing {smoothing.toFixed(2)}</span>
          <input
            type="range"
            min="0"
            max={MAX_SMOOTHING}
            step="0.01"
            value={smoothing}
            onInput={({ currentTarget }) => setSmoothing(Number(currentTarget.value))}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={is_log}
            onChange={({ currentTarget }) => setLog(currentTarget.checked)}
          />
          Logarithmic
        </label>
        <p class="quiet">Drag to zoom in, double click to zoom out.</p>
      </form>
      {all.size === 0 && <p class="loading">The first update has not ended yet.</p>}
      {sections.map(([section, names], i) => (
        <details key={section} open={i < FIRST_SECTIONS.length}>
          <summary>{section}</summary>
          <div class="charts">
            {names.map((name) => (
              <Chart
                key={name}
                title={name}
                cursor="run"
                lines={[lineOf(name, all)]}
                smoothing={smoothing}
                is_log={is_log}
              />
            ))}
          </div>
        </details>
      ))}
    </section>
  );
}
