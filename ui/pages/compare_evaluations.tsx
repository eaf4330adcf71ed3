/** Who did better on the held-out data: paired differences, and the wins and losses of each example. */

import { useRef, useState } from "preact/hooks";
import type { Comparison, Run, RunComparison } from "../../api/types.ts";
import { numberText } from "../parts/format.ts";
import { type Interval, scaleOf } from "../parts/interval.ts";
import { type Column, ListTable } from "../parts/list_table.tsx";
import { runColumns, RunMark } from "../parts/run_mark.tsx";
import { letterOf } from "../parts/run_signs.ts";
import { place } from "../routes.ts";
import { type ExampleRow, exampleRows, isDecided, type Outcome } from "./compare_rows.ts";
import { changeQuery, type ComparedProps } from "./compare_view.ts";

const PLOT_WIDTH = 100, PLOT_HEIGHT = 20;

/** Examples that are shown before one asks for more. */
const FIRST_EXAMPLES = 200;

/** A difference as a dot on its interval; the upright line is no difference. */
function IntervalPlot({ interval, scale }: { interval: Interval; scale: (value: number) => number }) {
  const x = (value: number) => PLOT_WIDTH * scale(value), middle = PLOT_HEIGHT / 2;
  const { difference, low, high } = interval;
  return (
    <svg class="interval" width={PLOT_WIDTH} height={PLOT_HEIGHT} aria-hidden="true">
      <line class="zero" x1={x(0)} x2={x(0)} y1={0} y2={PLOT_HEIGHT} />
      {low !== null && high !== null && (
        <>
          <line x1={x(low)} x2={x(high)} y1={middle} y2={middle} />
          <line x1={x(low)} x2={x(low)} y1={middle - 4} y2={middle + 4} />
          <line x1={x(high)} x2={x(high)} y1={middle - 4} y2={middle + 4} />
        </>
      )}
      <circle cx={x(difference)} cy={middle} r={4} />
    </svg>
  );
}

function signed(value: number): string {
  return value > 0 ? `+${numberText(value)}` : numberText(value);
}

function intervalText({ difference, low, high }: Interval): string {
  return low === null || high === null
    ? signed(difference)
    : `${signed(difference)} (${signed(low)} to ${signed(high)})`;
}

const BETTER: Readonly<Record<NonNullable<Comparison["metric"]>, string>> = {
  "eval/pass_rate": "higher is better",
  "eval/loss": "lower is better",
};

function RunRow({ run, at, compared, scale }: {
  run: Run;
  at: number;
  compared: RunComparison;
  scale: (value: number) => number;
}) {
  const { evaluation } = compared.runs[at]!, comparison = compared.comparisons[at - 1] ?? null;
  const difference = comparison?.difference ?? null, mcnemar = comparison?.mcnemar ?? null;
  return (
    <tr>
      <th scope="row">
        <RunMark at={at} /> {run.name}
        {comparison && comparison.note !== null && <div class="remark">{comparison.note}</div>}
      </th>
      <td>
        {evaluation
          ? (
            <>
              {evaluation.n} <span class="quiet">after update {evaluation.update}</span>
            </>
          )
          : <span class="quiet">none</span>}
      </td>
      <td class="number" data-label="value">
        {evaluation ? numberText(evaluation.value) : "–"}
      </td>
      <td class="number" data-label={at === 0 ? undefined : "difference"}>
        {difference ? intervalText(difference) : at === 0 ? <span class="quiet">baseline</span> : "–"}
      </td>
      <td>{difference && <IntervalPlot interval={difference} scale={scale} />}</td>
      <td class="number" data-label="won / lost">{mcnemar ? `${mcnemar.gained} / ${mcnemar.lost}` : "–"}</td>
      <td class="number" data-label="p">{mcnemar ? numberText(mcnemar.p_value) : "–"}</td>
    </tr>
  );
}

const RUN_COLUMNS: readonly Column[] = [
  "Run",
  "Evaluation",
  { number: "Value" },
  { number: "Difference, 95 % interval" },
  { name: "picture", heading: <span class="unseen">The difference as a picture</span> },
  { number: "Won / lost" },
  { number: "p" },
];

const OUTCOMES: Readonly<Record<NonNullable<Outcome["outcome"]>, { sign: string; text: string }>> = {
  win: { sign: "▲", text: "won" },
  loss: { sign: "▼", text: "lost" },
  tie: { sign: "=", text: "the same" },
};

function OutcomeCell({ of_run }: { of_run: Outcome | null }) {
  if (!of_run) return <td class="quiet">–</td>;
  const said = of_run.outcome && OUTCOMES[of_run.outcome];
  return (
    <td class={`outcome ${of_run.outcome ?? "first"}`}>
      {said && (
        <>
          <span aria-hidden="true">{said.sign}</span> <span class="unseen">{said.text}</span>
        </>
      )}
      {numberText(of_run.value)}
    </td>
  );
}

function Examples({ runs, rows }: { runs: readonly Run[]; rows: readonly ExampleRow[] }) {
  const only_decided = place.value.query.get("examples") === "decided",
    [shows_all, showAll] = useState(false);
  const wanted = only_decided ? rows.filter(isDecided) : rows;
  const shown = shows_all ? wanted : wanted.slice(0, FIRST_EXAMPLES);
  return (
    <section aria-label="examples">
      <h2>Each example</h2>
      <p class="quiet">
        ▲ better than{" "}
        {letterOf(0)}, ▼ worse, = the same. The value is the share of passed attempts, or the loss.
      </p>
      <div class="filters">
        <label class="check">
          <input
            type="checkbox"
            checked={only_decided}
            onChange={({ currentTarget }) =>
              changeQuery({ examples: currentTarget.checked ? "decided" : null })}
          />
          Only where a run won or lost
        </label>
      </div>
      {wanted.length === 0
        ? <p>No run won or lost an example.</p>
        : (
          <ListTable columns={["Example", ...runColumns(runs)]} kind="examples">
            {shown.map(({ example, outcomes }) => (
              <tr key={example}>
                <th scope="row">{example}</th>
                {outcomes.map((of_run, at) => <OutcomeCell key={at} of_run={of_run} />)}
              </tr>
            ))}
          </ListTable>
        )}
      {shown.length < wanted.length && (
        <button type="button" onClick={() => showAll(true)}>
          Show all {wanted.length.toLocaleString("en")}
        </button>
      )}
    </section>
  );
}

/** A choice of the evaluation of each run. */
function WhichEvaluation({ compared }: Pick<ComparedProps, "compared">) {
  const most = useRef(0), chosen = place.value.query.get("evaluation") ?? "last";
  most.current = Math.max(most.current, ...compared.runs.map(({ evaluation }) => evaluation?.n ?? 0));
  const numbers = Array.from({ length: most.current }, (_, i) => String(i + 1));
  return (
    <label class="field">
      <span>Evaluation of each run</span>
      <select
        value={chosen}
        onChange={({ currentTarget: { value } }) =>
          changeQuery({ evaluation: value === "last" ? null : value })}
      >
        {["last", "best", "first", ...numbers].map((which) => (
          <option key={which} value={which}>{numbers.includes(which) ? `number ${which}` : which}</option>
        ))}
      </select>
    </label>
  );
}

export function CompareEvaluations({ runs, compared }: ComparedProps) {
  const { comparisons } = compared, differences = comparisons.flatMap(({ difference }) => difference ?? []);
  const metric = comparisons.find(({ metric }) => metric !== null)?.metric ?? null;
  const scale = scaleOf(differences), rows = exampleRows(comparisons);
  return (
    <>
      <section aria-label="evaluations">
        <div class="filters">
          <WhichEvaluation compared={compared} />
        </div>
        {compared.runs.every(({ evaluation }) => evaluation === null)
          ? <p>None of these runs has such an evaluation. They need [evaluation] in the configuration.</p>
          : (
            <>
              <p class="quiet">
                {metric && `The value is ${metric}: ${BETTER[metric]}. `}Differences are those from{" "}
                {letterOf(0)} over the common examples. An interval without zero speaks for a difference.
              </p>
              <details class="fold">
                <summary>How this is computed</summary>
                <p>{compared.methods.difference}</p>
                <p>{compared.methods.outcomes} {compared.methods.mcnemar}</p>
              </details>
              <ListTable columns={RUN_COLUMNS} kind="evaluations cards">
                {runs.map((run, at) => (
                  <RunRow key={run.id} run={run} at={at} compared={compared} scale={scale} />
                ))}
              </ListTable>
            </>
          )}
      </section>
      {rows.length > 0 && <Examples runs={runs} rows={rows} />}
    </>
  );
}
