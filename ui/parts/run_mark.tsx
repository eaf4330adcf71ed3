/** The sign of one of several runs: its letter, and its line as the charts draw it. */

import type { Column } from "./list_table.tsx";
import { DASHES, letterOf } from "./run_signs.ts";

const WIDTH = 28;

/** @param at The run's place among the compared ones, from 0. */
export function RunMark({ at }: { at: number }) {
  return (
    <span class={`run-mark series-${at + 1}`}>
      <svg width={WIDTH} height={12} aria-hidden="true">
        <line x1={0} x2={WIDTH} y1={6} y2={6} stroke-dasharray={DASHES[at]?.join(" ") || undefined} />
      </svg>
      <strong>{letterOf(at)}</strong>
    </span>
  );
}

/** A column of a table for each run. */
export function runColumns(runs: readonly { id: string; name: string }[]): Column[] {
  return runs.map(({ id, name }, at) => ({
    name: id,
    heading: (
      <span title={name}>
        <RunMark at={at} /> <span class="unseen">{name}</span>
      </span>
    ),
  }));
}
