/** What a completed run came to, in one sentence. */

import type { EndEvaluation, Run } from "../../api/types.ts";
import { durationText, numberText } from "../parts/format.ts";

/** What the sentence says. */
export interface RunResult {
  run: Pick<Run, "last_metrics"> & { progress: Pick<Run["progress"], "update"> };
  /** The metric that shows whether the run learns. */
  metric: string;
  /** Its first value; null when there is none. */
  first: number | null;
  /** From its start to its end; null when it is not known. */
  seconds: number | null;
  /** Its evaluations, as its last event sums them up; null for fewer than two. */
  evaluation: EndEvaluation | null;
}

/** How the values of an evaluation are named and written. */
const EVALUATED = {
  "eval/pass_rate": { name: "pass rate", textOf: (rate: number) => `${numberText(100 * rate)} %` },
  "eval/loss": { name: "loss", textOf: numberText },
} as const;

/** How a value changed, as people read it. */
function changeText(from: string, to: string): string {
  return from === to ? `stayed at ${to}` : `went from ${from} to ${to}`;
}

function evaluatedText({ metric, before, after, fell }: EndEvaluation): string {
  const { name, textOf } = EVALUATED[metric];
  return `the held-out ${name} ${changeText(textOf(before.value), textOf(after.value))}` +
    (fell ? ", worse than its best beyond chance" : "");
}

function metricText({ run: { progress, last_metrics }, metric, first }: RunResult): string | null {
  const last = last_metrics[metric];
  if (first === null || last === undefined) return null;
  return progress.update === 1
    ? `${metric} was ${numberText(last)}`
    : `${metric} ${changeText(numberText(first), numberText(last))}`;
}

/** `It trained 6 updates in 1:20: reward/mean went from 0.2 to 0.7, the held-out pass rate went from 20 % to 60 %.` */
export function resultText(result: RunResult): string {
  const { run: { progress: { update } }, seconds, evaluation } = result;
  const trained = `It trained ${update} update${update === 1 ? "" : "s"}`;
  const told = [metricText(result), evaluation && evaluatedText(evaluation)].filter((text) => text !== null);
  return [
    seconds === null ? trained : `${trained} in ${durationText(seconds)}`,
    ...(told.length === 0 ? [] : [told.join(", ")]),
  ].join(": ") + ".";
}
