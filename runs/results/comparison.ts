/** Compares the evaluations and configurations of two or more runs. */

import { ownSection, trainingData } from "../../config/check/own_section.ts";
import type { ResolvedConfig } from "../../config/check/derive.ts";
import { effectOf } from "../../config/key_effects.ts";
import { nextTurn } from "../../core/pauses.ts";
import { flattenConfig } from "../directory/config_identity.ts";
import type { EvaluationEvent } from "../record/event.ts";
import { gainOf, type Objective, objectiveOf, OBJECTIVES } from "../record/objective.ts";
import {
  BOOTSTRAP_RESAMPLES,
  bootstrapSteps,
  evenExample,
  type Example,
  MIN_PAIRS,
  type PairedDifference,
} from "../record/paired_comparison.ts";
import { mcnemar } from "../record/statistics.ts";

/** A run with the evaluation that is compared; null when it has none. */
export interface Compared {
  id: string;
  config: ResolvedConfig | null;
  /** As clients see it. */
  shown_config: Readonly<Record<string, unknown>> | null;
  evaluation: EvaluationEvent | null;
}

/** An example in both evaluations. */
export interface ComparedExample {
  /** The scenario, or the line of the row. */
  example: string;
  /** The share of passed attempts, or the loss. */
  before: number;
  after: number;
  /** `win`: the later one is better. */
  outcome: "win" | "loss" | "tie";
}

/** The later evaluation against the earlier one. */
export interface Comparison {
  metric: Objective | null;
  /** Keys of the configuration that decide what an evaluation measures, and differ. */
  measured_differently: string[];
  examples: { common: number; only_before: number; only_after: number };
  /** Over the common examples; null when nothing can be compared. */
  difference: PairedDifference | null;
  /** Null for losses. With several attempts at a scenario a pass is a higher share, which makes it the sign test. */
  mcnemar: { gained: number; lost: number; p_value: number } | null;
  outcomes: ComparedExample[];
  /** The limits of the comparison, in words; null when both evaluations measured the same examples in the same way. */
  note: string | null;
}

/** How the members of a comparison are computed, in words for people. */
export const COMPARISON_METHODS = {
  difference:
    "The value of the run minus that of the first run, over the examples that both evaluations have. The 95 % interval " +
    `is by the paired bootstrap: these examples are resampled ${
      BOOTSTRAP_RESAMPLES.toLocaleString("en")
    } times, each ` +
    `with both of its values. There is none when they do not determine it, as with fewer than ${MIN_PAIRS} examples.`,
  outcomes:
    "An example is won when the run's value is better than that of the first run, and lost when it is worse.",
  mcnemar:
    "p is that of McNemar's exact test, two-sided: how likely at least such a difference between scenarios won and lost is by " +
    "chance alone. With several attempts at each scenario it is the sign test. Losses have none.",
} as const;

/** The configurations' leaves that differ, by key; a value per run, null where it is not set. */
export function configDifferences(
  configs: readonly (Readonly<Record<string, unknown>> | null)[],
): { key: string; values: unknown[] }[] {
  const leaves = configs.map((config) => config ? flattenConfig(config) : new Map<string, unknown>());
  const keys = [...new Set(leaves.flatMap((of_run) => [...of_run.keys()]))].sort();
  return keys.filter((key) => key !== "run.name")
    .map((key) => ({ key, values: leaves.map((of_run) => of_run.get(key) ?? null) }))
    .filter(({ values }) => values.some((value) => JSON.stringify(value) !== JSON.stringify(values[0])));
}

/** The examples of an evaluation: scenarios with their share of passed attempts, or rows with their loss. */
function examplesOf({ scenarios, by_row }: EvaluationEvent): Map<string, Example> {
  if (scenarios.length === 0) return new Map(Object.entries(by_row ?? {}));
  return new Map(
    scenarios.map(({ scenario, passes, attempts }) => [scenario, evenExample(passes / attempts)]),
  );
}

function metricOf({ evaluation }: Compared): Objective | null {
  return evaluation && (objectiveOf(evaluation)?.metric ?? null);
}

/** Why two evaluations cannot be compared; null when they can. */
function obstacle(before: Compared, after: Compared): string | null {
  for (const { id, evaluation } of [before, after]) if (!evaluation) return `${id} has no such evaluation`;
  const metric = metricOf(before), other = metricOf(after);
  if (!metric || !other) return "an evaluation has no value";
  if (metric !== other) return `one evaluation measures ${metric}, the other ${other}`;
  const { is_rate, example } = OBJECTIVES[metric];
  const loss = ({ config }: Compared) => {
    if (!config) return null;
    const section = ownSection(config);
    delete section[trainingData(config).key.split(".").at(-1)!];
    return JSON.stringify([config.run.algorithm, section]);
  };
  if (!is_rate && loss(before) !== loss(after)) return "the losses are of different kinds";
  const data = ({ config }: Compared) => config?.evaluation?.data;
  if (example === "row" && data(before) !== data(after)) return "rows of different files cannot be paired";
  return null;
}

/** Compares the evaluations of two runs over their common examples. Other work of the thread runs in between. */
export async function compare(
  before: Compared,
  after: Compared,
  { seed }: { seed: number },
): Promise<Comparison> {
  const measured_differently = changedMeasures(before, after), refused = obstacle(before, after);
  const a = before.evaluation ? examplesOf(before.evaluation) : new Map<string, Example>();
  const b = after.evaluation ? examplesOf(after.evaluation) : new Map<string, Example>();
  const common = refused === null ? [...a.keys()].filter((example) => b.has(example)) : [];
  const counts = {
    common: common.length,
    only_before: a.size - common.length,
    only_after: b.size - common.length,
  };
  const metric = refused === null ? metricOf(before) : null, is_rate = metric && OBJECTIVES[metric].is_rate;
  const outcomes = common.map((example) =>
    outcomeOf(example, { a: a.get(example)!, b: b.get(example)!, metric: metric! })
  );
  const count = (outcome: string) => outcomes.filter((compared) => compared.outcome === outcome).length;
  const gained = count("win"), lost = count("loss");
  const pairs = { a: common.map((example) => a.get(example)!), b: common.map((example) => b.get(example)!) };
  const bound = is_rate ? { bound: 1 } : {};
  const is_compared = common.length > 0;
  return {
    metric,
    measured_differently,
    examples: counts,
    difference: is_compared ? await paused(bootstrapSteps(pairs.a, pairs.b, { seed, ...bound })) : null,
    mcnemar: is_compared && is_rate ? { gained, lost, p_value: mcnemar(gained, lost).p_value } : null,
    outcomes,
    note: noteOf(refused, counts, measured_differently),
  };
}

function changedMeasures(before: Compared, after: Compared): string[] {
  const differ = configDifferences([before.shown_config, after.shown_config]).map(({ key }) => key);
  return differ.filter((key) => effectOf(key).measures);
}

function outcomeOf(
  example: string,
  { a, b, metric }: { a: Example; b: Example; metric: Objective },
): ComparedExample {
  const before = a.sum / a.weight, after = b.sum / b.weight;
  const gain = gainOf(metric, { from: before, to: after });
  return { example, before, after, outcome: gain > 0 ? "win" : gain < 0 ? "loss" : "tie" };
}

function noteOf(
  refused: string | null,
  { common, only_before, only_after }: Comparison["examples"],
  measured_differently: readonly string[],
): string | null {
  if (refused !== null) return `Nothing is compared: ${refused}.`;
  if (common === 0) return "Nothing is compared: the evaluations have no example in common.";
  const notes = only_before + only_after > 0
    ? [
      `Only the ${common} common examples are compared; ${only_before} are only in the first evaluation, ${only_after} ` +
      "only in the second.",
    ]
    : [];
  if (measured_differently.length > 0) {
    notes.push(
      `The evaluations differ in ${
        measured_differently.join(", ")
      }, which may explain a part of the difference.`,
    );
  }
  return notes.length > 0 ? notes.join(" ") : null;
}

async function paused<T>(steps: Generator<void, T>): Promise<T> {
  while (true) {
    const { done, value } = steps.next();
    if (done) return value;
    await nextTurn();
  }
}
