/** Searches the attempts of a run. */

import { useEffect, useState } from "preact/hooks";
import type { FoundTrajectoryMember } from "../../api/types.ts";
import { usePages } from "../client/use_pages.ts";
import { endingOf, wordsOf } from "../parts/attempt.ts";
import { numberText } from "../parts/format.ts";
import { Shortcuts, useKeys } from "../parts/keys.tsx";
import { LongTable, ROW_KEYS } from "../parts/long_table.tsx";
import { hrefOf, place, replacePlace } from "../routes.ts";
import { BOUNDARIES, filterOf, queryWith, STOP_REASONS } from "./trajectory_filters.ts";

const FOUND_ROW = 40;
/** Attempts that are looked for at first. */
const FIRST_FOUND = 50;
/** How long a text may change before it is searched for. */
const TYPED_MS = 300;

type Name = Parameters<typeof queryWith>[1];

function change(name: Name, value: string): void {
  const { segments, query } = place.value;
  replacePlace(segments, queryWith(query, name, value));
}

/** A field whose text is searched for when it rests. */
function Typed({ name, label, is_number = false }: { name: Name; label: string; is_number?: boolean }) {
  const of_address = place.value.query.get(name) ?? "", [text, setText] = useState(of_address);
  useEffect(() => setText(of_address), [of_address]);
  useEffect(() => {
    if (text === of_address) return;
    const timer = setTimeout(() => change(name, text), TYPED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  const take = ({ currentTarget }: { currentTarget: HTMLInputElement }) => setText(currentTarget.value);
  return (
    <label class="field">
      <span>{label}</span>
      {is_number
        ? <input type="number" class="reward-bound" step="any" value={text} onInput={take} />
        : <input type="search" value={text} onInput={take} />}
    </label>
  );
}

function Choice({ name, label, values }: { name: Name; label: string; values: readonly string[] }) {
  return (
    <label class="field">
      <span>{label}</span>
      <select
        value={place.value.query.get(name) ?? ""}
        onChange={({ currentTarget }) => change(name, currentTarget.value)}
      >
        <option value="">any</option>
        {values.map((value) => <option key={value} value={value}>{wordsOf(value)}</option>)}
      </select>
    </label>
  );
}

/** Why an attempt was not trained on, beside how it ended; empty for one that was. */
function lostText({ status, attribution }: FoundTrajectoryMember): string {
  return status === "kept" ? "" : [wordsOf(status), attribution].filter(Boolean).join(" · ");
}

export function TrajectorySearch({ id }: { id: string }) {
  const filter = filterOf(place.value.query);
  const list = usePages("GET /v1/runs/{id}/trajectories/search", { params: { id }, query: filter }, {
    itemsOf: ({ members }) => members,
    least: FIRST_FOUND,
  });
  useKeys(ROW_KEYS);
  return (
    <>
      <form class="filters attempt-filters" role="search" onSubmit={(event) => event.preventDefault()}>
        <Typed name="text" label="Text" />
        <Typed name="scenario" label="Scenario" />
        <Typed name="tool" label="Called tool" />
        <Choice name="stop_reason" label="Ended" values={STOP_REASONS} />
        <Choice name="failure" label="Broke at" values={BOUNDARIES} />
        <Typed name="min_reward" label="Reward from" is_number />
        <Typed name="max_reward" label="to" is_number />
      </form>
      <LongTable
        label="attempts"
        list={list}
        row_height={FOUND_ROW}
        keyOf={({ update, group, member }) => `${update} ${group} ${member}`}
        columns={[
          { label: "Attempt", width: 12 },
          { label: "Scenario", width: 13 },
          { label: "Reward", width: 6, is_number: true },
          { label: "Advantage", width: 7, is_number: true },
          { label: "Ended", width: 10 },
          { label: "Turns", width: 5, is_number: true },
          { label: "Tokens written", width: 8, is_number: true },
          { label: "Not trained on", width: 11 },
        ]}
        empty={
          <div class="empty">
            <p>No attempt passes these filters. Texts and tools are known only where texts are kept.</p>
            <a href={hrefOf(["runs", id, "trajectories", "search"])}>Clear the filters</a>
          </div>
        }
      >
        {(found) => {
          const { update, group, member, scenario, total_reward, advantage } = found;
          return (
            <>
              <th scope="row">
                <a href={hrefOf(["runs", id, "trajectories", update, group], { member })}>
                  update {update}, attempt {member}
                </a>
              </th>
              <td>
                <a class="plain-link" href={hrefOf(["runs", id, "scenarios", scenario])}>{scenario}</a>
              </td>
              <td class="number strong">{numberText(total_reward)}</td>
              <td class="number">{numberText(advantage)}</td>
              <td>{endingOf(found)}</td>
              <td class="number">{found.turns}</td>
              <td class="number">{found.action_tokens.toLocaleString("en")}</td>
              <td class="quiet">{lostText(found)}</td>
            </>
          );
        }}
      </LongTable>
      <Shortcuts bindings={ROW_KEYS} />
    </>
  );
}
