/** Applies the rules of health to the metrics of a run. */

import { mean, quantile } from "../record/statistics.ts";
import { HEALTH_RULES, type HealthLevel, type HealthRule } from "./health_rules.ts";
import type { MetricRow } from "./metric_series.ts";

/** A rule with what it found in a run. */
export interface RuleResult {
  rule: string;
  /** `ok`: the rule holds. */
  level: "ok" | HealthLevel;
  /** The measure after the newest update. */
  value: number;
  threshold: number;
  /** The first update from which on the rule was broken after every update; null when it holds. */
  since_update: number | null;
  advice: string;
}

/** A value after an update. */
interface Point {
  update: number;
  value: number;
}

/** A median of fewer values says little. */
const MIN_MEDIAN = 5;

/** The metrics that some rule reads. */
export const HEALTH_METRICS: readonly string[] = [...new Set(HEALTH_RULES.flatMap(({ metrics }) => metrics))];

/** Collects the metrics of a run by update. */
export class HealthSeries {
  readonly #by_name = new Map<string, Map<number, { sum: number; n: number }>>();

  /** Adds an event. Events come in the order of update and step. */
  add({ names, values, update }: Pick<MetricRow, "names" | "values" | "update">): void {
    names.forEach((name, i) => {
      if (!HEALTH_METRICS.includes(name)) return;
      const of_name = this.#by_name.get(name) ?? new Map<number, { sum: number; n: number }>();
      this.#by_name.set(name, of_name);
      const found = of_name.get(update) ?? { sum: 0, n: 0 };
      of_name.set(update, { sum: found.sum + values[i]!, n: found.n + 1 });
    });
  }

  /** The sum of metrics after each update that has all of them. */
  of(metrics: readonly string[]): Point[] {
    const all = metrics.map((name) => this.#by_name.get(name));
    const [first, ...others] = all;
    if (!first || others.some((other) => !other)) return [];
    return [...first.keys()].filter((update) => others.every((other) => other!.has(update))).map((
      update,
    ) => ({
      update,
      value: all.reduce((sum, of_name) => sum + of_name!.get(update)!.sum / of_name!.get(update)!.n, 0),
    }));
  }
}

/** The results of the rules: broken ones first, critical before warnings, then in the order of their declaration. */
export function evaluateRules(
  series: HealthSeries,
  rules: readonly HealthRule[] = HEALTH_RULES,
): RuleResult[] {
  const found = rules.flatMap((rule) => resultOf(rule, series.of(rule.metrics)) ?? []);
  const rank = { critical: 0, warning: 1, ok: 2 };
  return found.sort((a, b) => rank[a.level] - rank[b.level]);
}

/** Null when there are too few updates for the rule. */
function resultOf(rule: HealthRule, points: readonly Point[]): RuleResult | null {
  const measured = measure(rule, points), newest = measured.at(-1);
  if (!newest) return null;
  const isBroken = ({ value }: Point) =>
    rule.breaks === "above" ? value > rule.threshold : value < rule.threshold;
  const last_ok = measured.findLastIndex((point) => !isBroken(point));
  const { threshold, advice } = rule;
  return {
    rule: rule.rule,
    level: isBroken(newest) ? rule.level : "ok",
    value: newest.value,
    threshold,
    since_update: measured[last_ok + 1]?.update ?? null,
    advice,
  };
}

/** The measure after each update that has enough before it. */
function measure({ measure, window, absolute = false }: HealthRule, points: readonly Point[]): Point[] {
  const values = points.map(({ value }) => value);
  const lastMean = (i: number) => mean(values.slice(Math.max(0, i + 1 - window), i + 1));
  const at = (i: number): number | null => {
    switch (measure) {
      case "mean":
        return absolute ? Math.abs(lastMean(i)) : lastMean(i);
      case "share_of_start": {
        const start = mean(values.slice(0, window));
        return i + 1 >= 2 * window && start > 0 ? lastMean(i) / start : null;
      }
      case "share_of_median": {
        const before = values.slice(Math.max(0, i - window), i).sort((a, b) => a - b);
        const median = before.length >= MIN_MEDIAN ? quantile(before, 0.5) : 0;
        return median > 0 ? values[i]! / median : null;
      }
      case "fall_from_best":
        return i > 0 ? Math.max(...values.slice(0, i + 1)) - values[i]! : null;
      case "rise_from_best": {
        const best = Math.min(...values.slice(0, i + 1));
        return i > 0 && best > 0 ? values[i]! / best - 1 : null;
      }
    }
  };
  return points.flatMap(({ update }, i) => {
    const value = at(i);
    return value === null ? [] : [{ update, value }];
  });
}
