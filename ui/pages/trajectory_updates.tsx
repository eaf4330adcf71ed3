/** The updates of a run whose trajectories were kept, and the groups of one. */

import type { TrajectoryGroupSummary, TrajectoryMemberSummary } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { usePages } from "../client/use_pages.ts";
import { endingOf, lossesOf, lossOf, toneOf } from "../parts/attempt.ts";
import { numberText, timeText } from "../parts/format.ts";
import { type KeyBinding, Shortcuts, useKeys } from "../parts/keys.tsx";
import { LongTable, ROW_KEYS } from "../parts/long_table.tsx";
import { hrefOf } from "../routes.ts";
import { stepFrom } from "./trajectory_places.ts";

/** Heights of rows in pixels. */
const UPDATE_ROW = 40, GROUP_ROW = 60;

export function TrajectoryUpdates({ id, version }: { id: string; version: number }) {
  const list = usePages("GET /v1/runs/{id}/trajectories", { params: { id } }, {
    itemsOf: ({ updates }) => updates,
    version,
  });
  useKeys(ROW_KEYS);
  return (
    <>
      <LongTable
        label="updates"
        list={list}
        row_height={UPDATE_ROW}
        keyOf={({ update }) => update}
        columns={[
          { label: "Update", width: 7 },
          { label: "Reward", width: 6, is_number: true },
          { label: "Lowest", width: 5, is_number: true },
          { label: "Highest", width: 5, is_number: true },
          { label: "Passed", width: 5.5, is_number: true },
          { label: "Attempts", width: 5.5, is_number: true },
          { label: "Trained on", width: 6.5, is_number: true },
          { label: "Failed", width: 4.5, is_number: true },
          { label: "Groups", width: 5, is_number: true },
          { label: "Texts", width: 5.5 },
          { label: "Written", width: 7 },
        ]}
        empty={
          <div class="empty">
            <h2>No trajectories yet</h2>
            <p>
              They appear with the first update of a run of <code>agent_grpo</code> whose configuration has an
              {" "}
              <code>[observe]</code> section.
            </p>
          </div>
        }
      >
        {(row) => (
          <>
            <th scope="row">
              <a href={hrefOf(["runs", id, "trajectories", row.update])}>update {row.update}</a>
            </th>
            <td class="number strong">{numberText(row.reward_mean)}</td>
            <td class="number quiet-number">{numberText(row.reward_min)}</td>
            <td class="number quiet-number">{numberText(row.reward_max)}</td>
            <td class="number">{row.passes}</td>
            <td class="number">{row.trajectories}</td>
            <td class="number">{row.kept}</td>
            <td class="number">{row.failed > 0 ? <span class="some-failed">{row.failed}</span> : 0}</td>
            <td class="number">{row.groups}</td>
            <td>{row.texts_kept ? "kept" : <span class="quiet">not kept</span>}</td>
            <td>
              <time dateTime={row.time}>{timeText(row.time)}</time>
            </td>
          </>
        )}
      </LongTable>
      <Shortcuts bindings={ROW_KEYS} />
    </>
  );
}

/** A member as a link with its reward: its frame says whether it was trained on, its text how it went. */
function MemberLink({ member, href }: { member: TrajectoryMemberSummary; href: string }) {
  const { total_reward, status } = member, remark = lossOf(member) ?? endingOf(member);
  return (
    <a class={`member is-${status} ${toneOf(member)}`} href={href} title={remark}>
      <span class="unseen">attempt {member.member}, {remark}, reward</span>
      {total_reward === null ? "–" : numberText(total_reward)}
    </a>
  );
}

export const GROUP_TEXTS: Readonly<Record<TrajectoryGroupSummary["status"], string>> = {
  kept: "Trained on",
  degenerate: "No signal: all rewards are equal",
  too_small: "Dropped: fewer than two attempts are left",
  ungraded: "Dropped: nothing graded it",
};

export function TrajectoryGroups({ id, update }: { id: string; update: string }) {
  const list = usePages("GET /v1/runs/{id}/trajectories/updates/{update}", { params: { id, update } }, {
    itemsOf: ({ groups }) => groups,
  });
  const newest = useCall("GET /v1/runs/{id}/trajectories", { params: { id }, query: { limit: 1 } }, {
    version: update,
  }).value?.updates[0]?.update;
  const step = (by: number) => {
    const next = stepFrom(Number(update), by, newest);
    return next === null ? undefined : () => location.assign(hrefOf(["runs", id, "trajectories", next]));
  };
  const keys: KeyBinding[] = [
    ...ROW_KEYS,
    { keys: ["n", "ArrowRight"], what: "next update", action: step(1) },
    { keys: ["p", "ArrowLeft"], what: "previous update", action: step(-1) },
    { keys: ["u"], what: "up", action: () => location.assign(hrefOf(["runs", id, "trajectories"])) },
  ];
  useKeys(keys);
  const hrefTo = (group: number, member?: number) =>
    hrefOf(["runs", id, "trajectories", update, group], { member });
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["runs", id, "trajectories"])}>All updates</a> / update {update}
      </p>
      <LongTable
        label={`scenarios of update ${update}`}
        list={list}
        row_height={GROUP_ROW}
        keyOf={({ group }) => group}
        columns={[
          { label: "Scenario", width: 12 },
          { label: "Attempts, by reward", width: 26 },
          { label: "Group", width: 17 },
          { label: "Graded by", width: 8 },
        ]}
        empty={<p class="quiet">This update has no scenario.</p>}
      >
        {({ group, scenario, status, graded_by, members }) => (
          <>
            <th scope="row">
              <a href={hrefTo(group)}>{scenario}</a>
            </th>
            <td>
              <div class="members">
                {members.map((member) => (
                  <MemberLink key={member.member} member={member} href={hrefTo(group, member.member)} />
                ))}
              </div>
            </td>
            <td>
              {GROUP_TEXTS[status]}
              <span class="losses">{lossesOf(members)}</span>
            </td>
            <td>{graded_by ?? "–"}</td>
          </>
        )}
      </LongTable>
      <Shortcuts bindings={keys} />
    </>
  );
}
