import assert from "node:assert/strict";
import { type GridLine, gridReport, missingCells } from "./learn_grid_report.ts";

/** Twenty scenarios, some passed before and some after. */
function line(seed: number, [before, after]: [number, number], more: Partial<GridLine> = {}): GridLine {
  const evaluation = (update: number, passes: number) => ({
    update,
    pass_rate: passes / 20,
    passes: "8".repeat(passes) + "0".repeat(20 - passes),
  });
  return {
    by: "svc",
    commit: "abc",
    seed,
    lr: 3e-3,
    max_update_kl: 0,
    evaluations: [evaluation(0, before), evaluation(20, after)],
    by_update: { "kl/update_whole": [0.001, null, 0.25], "optimizer/step_scale": [1, null, 0.5] },
    ...more,
  };
}

Deno.test("a cell with a line is not missing; missing ones are in the order of the rates", () => {
  const wanted = { seeds: [1, 2], rates: [3e-3, 6e-3], bounds: [0] };
  const cell = (seed: number, lr: number) => ({ seed, lr, max_update_kl: 0 });
  assert.deepEqual(missingCells([], wanted), [cell(1, 3e-3), cell(2, 3e-3), cell(1, 6e-3), cell(2, 6e-3)]);
  const reference = line(2, [1, 2], { by: "pytorch" });
  assert.deepEqual(missingCells([line(1, [1, 2]), reference], wanted), [
    cell(2, 3e-3),
    cell(1, 6e-3),
    cell(2, 6e-3),
  ]);
});

Deno.test("a run whose bound shortened no step is also the run without a bound", () => {
  const bounded = (seed: number, scales: (number | null)[]) =>
    line(seed, [10, 14], { max_update_kl: 1e-3, by_update: { "optimizer/step_scale": scales } });
  const lines = [bounded(1, [1, null, 1]), bounded(2, [1, 0.9, 1])];
  const wanted = { seeds: [1, 2], rates: [3e-3], bounds: [1e-3, 0] };
  assert.deepEqual(missingCells(lines, wanted), [{ seed: 2, lr: 3e-3, max_update_kl: 0 }]);
  const [with_bound, without] = gridReport(lines).split("## ").slice(1);
  assert.match(with_bound!, /2 seeds\./);
  assert.match(without!, /^lr 0\.003, without a bound\n[^]*1 seeds\./);
});

Deno.test("a table has each seed's rates and rise, and the mean and the worst of all", () => {
  const text = gridReport([line(2, [10, 9]), line(1, [10, 14]), line(3, [10, 16], { by: "pytorch" })]);
  const [ours, reference] = text.split("## ").slice(1);
  assert.match(ours!, /^lr 0\.003, without a bound\n/);
  const rows = ours!.split("\n").filter((row) => /^\| \d/.test(row));
  assert.match(rows[0]!, /^\| 1 \| 50\.0 % \| 70\.0 % \| \+20\.0 \(\+\S+ to \+\S+\) \| 0\.25 \| 1 \|/);
  assert.match(rows[1]!, /^\| 2 \| 50\.0 % \| 45\.0 % \| −5\.0 /);
  assert.match(ours!, /Mean rise \+7\.5, worst −5\.0 points, 2 seeds\./);
  assert.match(reference!, /^lr 0\.003, the reference in PyTorch, without a bound\n[^]*Mean rise \+30\.0/);
});

Deno.test("the same rates have the same interval whatever the run's seed, and never one without width", () => {
  const rises = (lines: GridLine[]) =>
    gridReport(lines).split("\n").filter((row) => /^\| \d/.test(row)).map((row) => row.split(" | ")[3]!);
  const [first, second] = rises([line(1, [10, 14]), line(2, [10, 14])]);
  assert.equal(first, second);
  // Clopper and Pearson with no success in 20 trials: u = 1 − 0.025^(1/20) = 0.168.
  assert.deepEqual(rises([line(1, [7, 7])]), ["+0.0 (−16.8 to +16.8)"]);
  assert.deepEqual(rises([line(1, [0, 20])]), ["+100.0 (+66.3 to +100.0)"]);
});
