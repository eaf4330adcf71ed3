/** What several runs did with the same scenario: a trajectory of each beside the others. */

import { useState } from "preact/hooks";
import type { Run, RunScenario, RunScenarioGroup, TrajectoryMember } from "../../api/types.ts";
import { allPages, ApiProblem } from "../client/api.ts";
import { useCall, useLoad } from "../client/use_call.ts";
import { endingOf, wordsOf } from "../parts/attempt.ts";
import { Conversation } from "../parts/conversation.tsx";
import { type Fact, Facts } from "../parts/facts.tsx";
import { numberText } from "../parts/format.ts";
import { ListTable } from "../parts/list_table.tsx";
import { Loading } from "../parts/loading.tsx";
import { runColumns, RunMark } from "../parts/run_mark.tsx";
import { hrefOf, place } from "../routes.ts";
import { type ScenarioRow, scenarioRows } from "./compare_rows.ts";
import { changeQuery, type ComparedProps } from "./compare_view.ts";
import { type Pick, pickOf, withPick } from "./compare_picks.ts";

/** Scenarios that are shown before one asks for more. */
const FIRST_SCENARIOS = 200;

/** The most members of a group that the server gives at once. */
const MEMBERS = 500;

function RateCell({ met }: { met: RunScenario | null }) {
  if (!met) return <td class="quiet">not met</td>;
  return (
    <td>
      {numberText(met.pass_rate)} <span class="quiet">{met.passes} of {met.attempts}</span>
    </td>
  );
}

function Scenarios({ runs, rows }: { runs: readonly Run[]; rows: readonly ScenarioRow[] }) {
  const [typed, setTyped] = useState(""), [shows_all, showAll] = useState(false);
  const found = rows.filter(({ scenario }) => scenario.toLowerCase().includes(typed.toLowerCase()));
  const shown = shows_all ? found : found.slice(0, FIRST_SCENARIOS);
  if (rows.length === 0) {
    return <p>None of these runs has trajectories yet. They need [observe] in the configuration.</p>;
  }
  return (
    <>
      <div class="filters">
        <label class="field">
          <span>Scenario</span>
          <input
            type="search"
            value={typed}
            onInput={({ currentTarget }) => setTyped(currentTarget.value)}
          />
        </label>
      </div>
      <p class="quiet">
        The share of passed attempts in the kept trajectories. Choose a scenario to see the attempts.
      </p>
      <ListTable columns={["Scenario", ...runColumns(runs)]}>
        {shown.map(({ scenario, runs: of_runs }) => (
          <tr key={scenario}>
            <th scope="row">
              <button type="button" class="link" onClick={() => changeQuery({ scenario, picks: null })}>
                {scenario}
              </button>
            </th>
            {of_runs.map((met, at) => <RateCell key={at} met={met} />)}
          </tr>
        ))}
      </ListTable>
      {shown.length < found.length && (
        <button type="button" onClick={() => showAll(true)}>
          Show all {found.length.toLocaleString("en")}
        </button>
      )}
    </>
  );
}

function factsOf(member: TrajectoryMember): Fact[] {
  const { total_reward, status, action_tokens } = member;
  return [
    ["Reward", numberText(total_reward)],
    ["Ended", endingOf(member)],
    ["Status", wordsOf(status)],
    ["Tokens", String(action_tokens)],
  ];
}

/** One attempt of a run at the scenario, with a choice of the others in its group. */
function Attempt({ run, group: { update, group }, member, onPick }: {
  run: Run;
  group: RunScenarioGroup;
  member: number;
  onPick(member: number): void;
}) {
  const loaded = useCall("GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}", {
    params: { id: run.id, update: String(update), group: String(group) },
    query: { limit: MEMBERS },
  });
  return (
    <Loading of={loaded} what="the attempts">
      {({ members, task }) => {
        const shown = members.find((each) => each.member === member) ?? members[0];
        if (!shown) return <p>This group has no attempts.</p>;
        return (
          <>
            <div class="attempt-choice" role="group" aria-label={`attempts of ${run.name}`}>
              {members.map((each) => (
                <button
                  key={each.member}
                  type="button"
                  aria-pressed={each === shown}
                  onClick={() => onPick(each.member)}
                >
                  {each.member} <span class="quiet">{numberText(each.total_reward)}</span>
                </button>
              ))}
            </div>
            <Facts facts={factsOf(shown)} is_small />
            <p>
              <a href={hrefOf(["runs", run.id, "trajectories", update, group], { member: shown.member })}>
                This attempt with all its values
              </a>
            </p>
            <Conversation member={shown} task={task} />
          </>
        );
      }}
    </Loading>
  );
}

/** What a run did with the scenario in one of its updates. */
function RunColumn({ run, at, scenario, pick, onPick }: {
  run: Run;
  at: number;
  scenario: string;
  pick: Pick | null;
  onPick(pick: Pick): void;
}) {
  const loaded = useLoad(async (api, signal) => {
    const params = { id: run.id, scenario };
    try {
      const pages = await allPages((query) =>
        api.call("GET /v1/runs/{id}/scenarios/{scenario}", { params, query, signal })
      );
      return pages.flatMap(({ groups }) => groups);
    } catch (error) {
      // The run has not met this scenario.
      if (error instanceof ApiProblem && error.kind === "not-found") return [];
      throw error;
    }
  }, JSON.stringify([run.id, scenario]));
  return (
    <article class="member-column">
      <h2>
        <RunMark at={at} /> {run.name}
      </h2>
      <Loading of={loaded} what="the groups">
        {(groups) => {
          const group = groups.find(({ update }) => update === pick?.update) ?? groups.at(-1);
          if (!group) return <p class="quiet">No kept trajectory of this run has the scenario.</p>;
          return (
            <>
              <label class="field">
                <span>Update</span>
                <select
                  value={group.update}
                  onChange={({ currentTarget: { value } }) => onPick({ update: Number(value), member: 0 })}
                >
                  {groups.map(({ update, group, passes, attempts }) => (
                    <option key={`${update} ${group}`} value={update}>
                      update {update}: {passes} of {attempts} passed
                    </option>
                  ))}
                </select>
              </label>
              <Attempt
                run={run}
                group={group}
                member={pick?.member ?? 0}
                onPick={(member) => onPick({ update: group.update, member })}
              />
            </>
          );
        }}
      </Loading>
    </article>
  );
}

function SideBySide({ runs, scenario }: { runs: readonly Run[]; scenario: string }) {
  const picks = place.value.query.get("picks");
  return (
    <>
      <p class="crumbs">
        <button type="button" class="link" onClick={() => changeQuery({ scenario: null, picks: null })}>
          All scenarios
        </button>{" "}
        / {scenario}
      </p>
      <div class="side-by-side" tabIndex={0} role="group" aria-label="attempts of all runs">
        {runs.map((run, at) => (
          <RunColumn
            key={run.id}
            run={run}
            at={at}
            scenario={scenario}
            pick={pickOf(picks, run.id)}
            onPick={(pick) => changeQuery({ picks: withPick(picks, run.id, pick) })}
          />
        ))}
      </div>
    </>
  );
}

export function CompareScenarios({ runs }: ComparedProps) {
  const scenario = place.value.query.get("scenario");
  const loaded = useLoad(
    (api, signal) =>
      Promise.all(runs.map(async ({ id }) => {
        const params = { id };
        const pages = await allPages((query) =>
          api.call("GET /v1/runs/{id}/scenarios", { params, query, signal })
        );
        return pages.flatMap(({ scenarios }) => scenarios);
      })),
    JSON.stringify(runs.map(({ id }) => id)),
    { version: runs.map(({ progress }) => progress.update) },
  );
  if (scenario !== null) return <SideBySide key={scenario} runs={runs} scenario={scenario} />;
  return (
    <section aria-label="scenarios">
      <Loading of={loaded} what="the scenarios">
        {(lists) => <Scenarios runs={runs} rows={scenarioRows(lists)} />}
      </Loading>
    </section>
  );
}
