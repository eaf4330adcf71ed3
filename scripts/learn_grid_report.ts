/** Summarises the learning grid and lists missing runs. */

import { points } from "../cli/progress.ts";
import { mean } from "../runs/record/statistics.ts";
import { pairedRates } from "./paired_rates.ts";

/** One run of the grid. */
export interface Cell {
  seed: number;
  lr: number;
  /** 0: no bound. */
  max_update_kl: number;
}

/** The result of a run. */
export interface GridLine extends Cell {
  /** The trainer: this program, or the reference in PyTorch. */
  by: "svc" | "pytorch";
  commit: string;
  /**
   * Pass rates are shares of attempts. `passes` has a digit for each scenario, in the order of their file: how many of
   * its {@link ATTEMPTS} passed.
   */
  evaluations: { update: number; pass_rate: number; passes: string }[];
  /** Metrics by name, a value for each update; empty for the reference. */
  by_update: Record<string, (number | null)[]>;
}

/**
 * Attempts at each held-out scenario. All runs share the first evaluation, so its error is in every rise and does not
 * average out over seeds: it needs more attempts than the example has.
 */
export const ATTEMPTS = 8;

export const SEEDS = [1, 2, 3, 4, 5, 7];

/** The example's rate first, then its double and its half. */
export const RATES = [3e-3, 6e-3, 1.5e-3];

/** The example's bound, and none. */
export const BOUNDS = [1e-3, 0];

const sameCell = (a: Cell, b: Cell) =>
  a.seed === b.seed && a.lr === b.lr && a.max_update_kl === b.max_update_kl;

/**
 * The lines, and for each run whose bound shortened no step the same run without a bound: its bytes are equal, because
 * the bound only measures until it acts.
 */
function withUnbounded(lines: readonly GridLine[]): GridLine[] {
  const never_shortened = lines.filter((line) =>
    line.by === "svc" && line.max_update_kl > 0 &&
    line.by_update["optimizer/step_scale"]?.every((scale) => scale === 1 || scale === null)
  );
  const unbounded = never_shortened.map((line) => ({ ...line, max_update_kl: 0 }));
  return [
    ...lines,
    ...unbounded.filter((line) => !lines.some((made) => made.by === "svc" && sameCell(made, line))),
  ];
}

/** Wanted runs of this program without a line, in the order of the wanted rates. */
export function missingCells(
  lines: readonly GridLine[],
  { seeds, rates, bounds }: { seeds: readonly number[]; rates: readonly number[]; bounds: readonly number[] },
): Cell[] {
  const made = withUnbounded(lines.filter(({ by }) => by === "svc"));
  const cells = rates.flatMap((lr) =>
    seeds.flatMap((seed) => bounds.map((max_update_kl) => ({ seed, lr, max_update_kl })))
  );
  return cells.filter((cell) => !made.some((line) => sameCell(line, cell)));
}

const row = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;

/** The rise of a run in points, with the paired bootstrap interval over scenarios. */
function rise({ evaluations }: GridLine): { value: number; text: string } {
  const rates = (passes: string) => [...passes].map((digit) => Number(digit) / ATTEMPTS);
  const { difference, low, high } = pairedRates(
    rates(evaluations[0]!.passes),
    rates(evaluations.at(-1)!.passes),
  );
  const interval = low === null || high === null ? "" : ` (${points(low)} to ${points(high)})`;
  return { value: difference, text: points(difference) + interval };
}

/** A table: a line for each seed, then the mean and the worst. */
function table(lines: readonly GridLine[]): string[] {
  const sorted = lines.toSorted((a, b) => a.seed - b.seed);
  const rises = sorted.map(rise), values = rises.map(({ value }) => value);
  const updates = sorted[0]!.evaluations.map(({ update }) => update);
  const shown = (line: GridLine, name: string, of: (values: number[]) => number) => {
    const known = (line.by_update[name] ?? []).filter((value) => value !== null);
    return known.length === 0 ? "" : String(Number(of(known).toPrecision(2)));
  };
  return [
    row([
      "seed",
      ...updates.map((update) => `after ${update}`),
      "rise (95 % interval)",
      "largest KL of a full step",
      "steps shortened",
      "most malformed calls",
    ]),
    row(Array.from({ length: updates.length + 5 }, () => "---")),
    ...sorted.map((line, i) =>
      row([
        String(line.seed),
        ...line.evaluations.map(({ pass_rate }) => `${(100 * pass_rate).toFixed(1)} %`),
        rises[i]!.text,
        shown(line, "kl/update_whole", (values) => Math.max(...values)),
        shown(line, "optimizer/step_scale", (values) => values.filter((scale) => scale < 1).length),
        shown(line, "agent/malformed_call_fraction", (values) => Math.max(...values)),
      ])
    ),
    "",
    `Mean rise ${points(mean(values))}, worst ${points(Math.min(...values))} points, ${lines.length} seeds.`,
    "",
  ];
}

/** The grid as Markdown. */
export function gridReport(lines: readonly GridLine[]): string {
  const parts = [
    "# Learning rates, seeds, and the bound of an update",
    "",
    "Command: `deno task learn-grid` (examples/tiny_agent_learn.toml: 20 updates of 8 × 8 attempts; 100 held-out " +
    "scenarios, 8 attempts at each, the same random numbers each time). A run whose bound shortened no step is in both " +
    "tables of its rate: without the bound it has the same bytes.",
    "",
  ];
  const all = withUnbounded(lines);
  for (const lr of RATES) {
    for (const [by, bound, title] of kinds()) {
      const chosen = all.filter((line) =>
        line.by === by && line.lr === lr && (by === "pytorch" || line.max_update_kl === bound)
      );
      if (chosen.length > 0) parts.push(`## lr ${lr}, ${title}`, "", ...table(chosen));
    }
  }
  return `${parts.join("\n").trimEnd()}\n`;
}

function kinds(): [GridLine["by"], number, string][] {
  const ours = BOUNDS.map((bound): [GridLine["by"], number, string] => [
    "svc",
    bound,
    bound === 0 ? "without a bound" : `max_update_kl ${bound}`,
  ]);
  return [...ours, ["pytorch", 0, "the reference in PyTorch, without a bound"]];
}
