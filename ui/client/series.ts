/** The metrics of a run as they are drawn: the past in the server's buckets, and what came since. */

import type { Events, MetricBuckets } from "../../api/types.ts";

/** Buckets of each metric: more points than a chart has pixels would cost time and show nothing. */
export const BUCKETS = 400;

/** The values of a metric, oldest first, each over one or several updates. A value that is not finite is null. */
export interface Series {
  /** The last update of each point. */
  updates: number[];
  /** Mean, smallest and largest value, and the number of values. */
  values: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  counts: number[];
}

type RunEvents = Events["stream_run_events"];
type Values = Pick<RunEvents["metrics"], "seq" | "update" | "values">;
type State = Pick<RunEvents["state"], "seq" | "update">;
type Taken = Values | State;

/** The series of all metrics. */
export class SeriesSet {
  readonly by_name = new Map<string, Series>();
  /** The newest event that the buckets have. */
  since = 0;
  /** Changes when points are no longer those of before, which further ones do not change. */
  revision = 0;
  /** What was taken since the buckets began. */
  #taken: Taken[] = [];
  #has_lost = false;

  /** Begins with the server's buckets, and goes on with the events that came after them while they were on their way. */
  begin({ buckets, next_since }: MetricBuckets): void {
    const taken = this.#taken;
    this.by_name.clear();
    this.revision++;
    this.since = next_since;
    this.#taken = [];
    this.#has_lost = false;
    for (const { name, last_update, mean, min, max, count } of buckets) {
      const series = this.#of(name);
      series.updates.push(last_update);
      series.values.push(mean);
      series.low.push(min);
      series.high.push(max);
      series.counts.push(count);
    }
    for (const event of taken) {
      if ("values" in event) this.take(event);
      else this.drop(event);
    }
  }

  /** Whether the server should divide the run anew: so much was added, or a bucket lost a part of its updates. */
  get is_stale(): boolean {
    return this.#taken.length >= BUCKETS || this.#has_lost;
  }

  /** Adds the values of an event. Several steps of one update are one point. */
  take({ seq, update, values }: Values): void {
    if (seq <= this.since) return;
    this.#taken.push({ seq, update, values });
    for (const [name, value] of Object.entries(values)) {
      const series = this.#of(name);
      if (series.updates.at(-1) === update) addToLast(series, value);
      else addPoint(series, update, value);
    }
  }

  /** Removes what came after an update, as a run does that resumes from a checkpoint. */
  drop({ seq, update }: State): void {
    if (seq <= this.since) return;
    this.#taken.push({ seq, update });
    for (const series of this.by_name.values()) {
      while (series.updates.length > 0 && series.updates.at(-1)! > update) {
        this.#has_lost ||= series.counts.at(-1)! > 1;
        this.revision++;
        popPoint(series);
      }
    }
  }

  #of(name: string): Series {
    let series = this.by_name.get(name);
    if (!series) this.by_name.set(name, series = { updates: [], values: [], low: [], high: [], counts: [] });
    return series;
  }
}

/** Whether the server divides the updates of a run into buckets of several. */
export function isCoarse(all: ReadonlyMap<string, Series>): boolean {
  const lasts = [...all.values()].map(({ updates }) => updates.at(-1) ?? 0);
  const firsts = [...all.values()].map(({ updates }) => updates[0] ?? Infinity);
  return Math.max(0, ...lasts) - Math.min(...firsts) >= BUCKETS;
}

/** A part of a run in buckets of its own. */
export interface Detail {
  by_name: ReadonlyMap<string, Series>;
  /** Its first update, and the newest one that it has. */
  from: number;
  end: number;
}

/** The part of a run that the server divided anew. @param from The first update that was asked for. */
export function detailOf(buckets: MetricBuckets, from: number): Detail {
  const set = new SeriesSet();
  set.begin(buckets);
  const end = Math.max(from, ...[...set.by_name.values()].map(({ updates }) => updates.at(-1)!));
  return { by_name: set.by_name, from, end };
}

/** All metrics with a part of the run in detail. What lies before and behind it stays as it is. */
export function withDetail(
  all: ReadonlyMap<string, Series>,
  { by_name, from, end }: Detail,
): ReadonlyMap<string, Series> {
  return new Map([...all].map(([name, whole]) => {
    const part = by_name.get(name), before = whole.updates.findIndex((update) => update >= from);
    const behind = whole.updates.findIndex((update) => update > end);
    const joined = <T>(of: (series: Series) => T[]): T[] => [
      ...of(whole).slice(0, before < 0 ? undefined : before),
      ...(part ? of(part) : []),
      ...(behind < 0 ? [] : of(whole).slice(behind)),
    ];
    return [name, {
      updates: joined(({ updates }) => updates),
      values: joined(({ values }) => values),
      low: joined(({ low }) => low),
      high: joined(({ high }) => high),
      counts: joined(({ counts }) => counts),
    }];
  }));
}

function addPoint(
  { updates, values, low, high, counts }: Series,
  update: number,
  value: number | null,
): void {
  updates.push(update);
  values.push(value);
  low.push(value);
  high.push(value);
  counts.push(1);
}

function popPoint({ updates, values, low, high, counts }: Series): void {
  for (const column of [updates, values, low, high, counts]) column.pop();
}

function addToLast({ updates, values, low, high, counts }: Series, value: number | null): void {
  const at = updates.length - 1, count = counts[at]! + 1, mean = values[at] ?? null;
  counts[at] = count;
  if (value === null || mean === null) {
    values[at] = low[at] = high[at] = null;
    return;
  }
  values[at] = mean + (value - mean) / count;
  low[at] = Math.min(low[at]!, value);
  high[at] = Math.max(high[at]!, value);
}
