/** The scenarios of a run over its updates, and the history of one. */

import type { RunScenario, RunScenarioGroup } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { usePages } from "../client/use_pages.ts";
import { Chart } from "../parts/chart.tsx";
import { Facts } from "../parts/facts.tsx";
import { numberText, timeText } from "../parts/format.ts";
import { Shortcuts, useKeys } from "../parts/keys.tsx";
import { Loading } from "../parts/loading.tsx";
import { LongTable, ROW_KEYS } from "../parts/long_table.tsx";
import { Sparkline } from "../parts/sparkline.tsx";
import { hrefOf, place } from "../routes.ts";
import { changeZoom, optionsOf } from "./run_charts.tsx";
import { GROUP_TEXTS } from "./trajectory_updates.tsx";

const SCENARIO_ROW = 44;

/** `62.5 %`, with one digit after the point at most. */
export function percentText(rate: number | null): string {
  return rate === null ? "–" : `${numberText(Math.round(1000 * rate) / 10)} %`;
}

/** The pass rates of the updates in which there was one. */
function ratesOf({ updates }: RunScenario): number[] {
  return updates.flatMap(({ pass_rate }) => pass_rate === null ? [] : [pass_rate]);
}

export function TrajectoryScenarios({ id, version }: { id: string; version: number }) {
  const list = usePages("GET /v1/runs/{id}/scenarios", { params: { id } }, {
    itemsOf: ({ scenarios }) => scenarios,
    version,
  });
  useKeys(ROW_KEYS);
  return (
    <>
      <LongTable
        label="scenarios"
        list={list}
        row_height={SCENARIO_ROW}
        keyOf={({ scenario }) => scenario}
        columns={[
          { label: "Scenario", width: 13 },
          { label: "Passed", width: 6, is_number: true },
          { label: "Reward", width: 6, is_number: true },
          { label: "Attempts", width: 6, is_number: true },
          { label: "Failed", width: 5, is_number: true },
          { label: "Updates", width: 6, is_number: true },
          { label: "Pass rate by update", width: 10 },
        ]}
        empty={<p class="quiet">No scenario has been tried yet, or the run exports no trajectories.</p>}
      >
        {(row) => (
          <>
            <th scope="row">
              <a href={hrefOf(["runs", id, "scenarios", row.scenario])}>{row.scenario}</a>
            </th>
            <td class="number strong">{percentText(row.pass_rate)}</td>
            <td class="number">{numberText(row.reward_mean)}</td>
            <td class="number">{row.attempts}</td>
            <td class="number">{row.failed}</td>
            <td class="number">{row.updates.length}</td>
            <td>
              {ratesOf(row).length > 1 &&
                (
                  <Sparkline
                    values={ratesOf(row)}
                    label={`pass rate, last ${percentText(ratesOf(row).at(-1)!)}`}
                  />
                )}
            </td>
          </>
        )}
      </LongTable>
      <Shortcuts bindings={ROW_KEYS} />
    </>
  );
}

function Groups({ id, groups }: { id: string; groups: readonly RunScenarioGroup[] }) {
  return (
    <div class="table-scroll after-chart">
      <table class="list" aria-label="updates of this scenario">
        <thead>
          <tr>
            <th scope="col">Update</th>
            <th scope="col" class="number">Passed</th>
            <th scope="col" class="number">Reward</th>
            <th scope="col" class="number">Attempts</th>
            <th scope="col">Group</th>
            <th scope="col">Texts</th>
            <th scope="col">Written</th>
          </tr>
        </thead>
        <tbody>
          {groups.map((row) => (
            <tr key={`${row.update} ${row.group}`}>
              <th scope="row">
                <a href={hrefOf(["runs", id, "trajectories", row.update, row.group])}>
                  update {row.update}
                </a>
              </th>
              <td class="number strong">{percentText(row.pass_rate)}</td>
              <td class="number">{numberText(row.reward_mean)}</td>
              <td class="number">{row.attempts}</td>
              <td>{GROUP_TEXTS[row.status]}</td>
              <td>{row.texts_kept ? "kept" : <span class="quiet">not kept</span>}</td>
              <td>
                <time dateTime={row.time}>{timeText(row.time)}</time>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function ScenarioHistory(
  { id, scenario, version }: { id: string; scenario: string; version: number },
) {
  const loaded = useCall(
    "GET /v1/runs/{id}/scenarios/{scenario}",
    { params: { id, scenario }, query: { limit: 500 } },
    { version },
  );
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["runs", id, "scenarios"])}>All scenarios</a> / {scenario}
      </p>
      <Loading of={loaded} what="the scenario">
        {({ groups, pass_rate, reward_mean, attempts, failed, line }) => {
          const known = groups.toSorted((a, b) => a.update - b.update);
          const x = known.map(({ update }) => update);
          return (
            <>
              <Facts
                facts={[
                  ["Passed", percentText(pass_rate)],
                  ["Reward", numberText(reward_mean)],
                  ["Attempts", String(attempts)],
                  ["Failed", String(failed)],
                  ["Line of its file", String(line)],
                ]}
              />
              {known.length > 1 && (
                <Chart
                  title="Pass rate and reward by update"
                  cursor="scenario"
                  smoothing={0}
                  is_log={false}
                  zoom={optionsOf(place.value.query).zoom}
                  onZoom={changeZoom}
                  lines={[
                    { label: "pass rate", colour: 1, x, values: known.map(({ pass_rate }) => pass_rate) },
                    { label: "reward", colour: 2, x, values: known.map(({ reward_mean }) => reward_mean) },
                  ]}
                />
              )}
              <Groups id={id} groups={known} />
              <p class="quiet">
                An attempt can be put beside one of another update: open it and choose under “Beside it”.
              </p>
            </>
          );
        }}
      </Loading>
    </>
  );
}
