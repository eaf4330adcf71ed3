/** The updates of a run whose trajectories were kept, and the groups of one. */

import type { TrajectoryGroupSummary, TrajectoryMemberSummary } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { numberText } from "../parts/format.ts";
import { Loading } from "../parts/loading.tsx";
import { hrefOf } from "../routes.ts";

/** Updates or groups of one answer. */
const PAGE = 500;

export function TrajectoryUpdates({ id, version }: { id: string; version: number }) {
  const loaded = useCall(
    "GET /v1/runs/{id}/trajectories",
    { params: { id }, query: { limit: PAGE } },
    version,
  );
  return (
    <Loading of={loaded} what="the updates">
      {({ updates }) =>
        updates.length === 0
          ? <p class="quiet">No update has trajectories yet. They need [observe] in the configuration.</p>
          : (
            <div class="table-scroll">
              <table class="list">
                <thead>
                  <tr>
                    <th scope="col">Update</th>
                    <th scope="col" class="number">Reward</th>
                    <th scope="col" class="number">Passed</th>
                    <th scope="col" class="number">Attempts</th>
                    <th scope="col" class="number">Kept</th>
                    <th scope="col" class="number">Failed</th>
                    <th scope="col" class="number">Groups</th>
                  </tr>
                </thead>
                <tbody>
                  {updates.map((row) => (
                    <tr key={row.update}>
                      <th scope="row">
                        <a href={hrefOf(["runs", id, "trajectories", row.update])}>update {row.update}</a>
                      </th>
                      <td class="number">
                        {numberText(row.reward_mean)}{" "}
                        <span class="quiet">
                          {numberText(row.reward_min)} to {numberText(row.reward_max)}
                        </span>
                      </td>
                      <td class="number">{row.passes}</td>
                      <td class="number">{row.trajectories}</td>
                      <td class="number">{row.kept}</td>
                      <td class="number">{row.failed}</td>
                      <td class="number">{row.groups}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
    </Loading>
  );
}

/** Why a member is not like the others, in words; empty when it is. */
export function remarkOf(
  { status, attribution, stop_reason, malformed_calls }: TrajectoryMemberSummary,
): string {
  const lost = status === "kept" ? [] : [status.replace("_", " "), attribution && `by the ${attribution}`];
  const parts = [
    ...lost,
    stop_reason.replaceAll("_", " "),
    malformed_calls > 0 && `${malformed_calls} malformed`,
  ];
  return parts.filter(Boolean).join(", ");
}

/** A member as a link with its reward: its frame says whether it was trained on, its text how it went. */
function MemberLink({ member, href }: { member: TrajectoryMemberSummary; href: string }) {
  const { total_reward, status } = member;
  const quality = total_reward === null ? "none" : total_reward > 0 ? "good" : "bad";
  return (
    <a class={`member is-${status} ${quality}`} href={href} title={remarkOf(member)}>
      <span class="unseen">member {member.member},</span>
      {total_reward === null ? "–" : numberText(total_reward)}
    </a>
  );
}

const GROUP_TEXTS: Readonly<Record<TrajectoryGroupSummary["status"], string>> = {
  kept: "trained on",
  degenerate: "no signal: all rewards are equal",
  too_small: "dropped: fewer than two attempts are left",
  ungraded: "dropped: nothing graded it",
};

export function TrajectoryGroups({ id, update }: { id: string; update: string }) {
  const input = { params: { id, update }, query: { limit: PAGE } };
  const loaded = useCall("GET /v1/runs/{id}/trajectories/updates/{update}", input);
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["runs", id, "trajectories"])}>All updates</a> / update {update}
      </p>
      <Loading of={loaded} what="the groups">
        {({ groups }) => (
          <div class="table-scroll">
            <table class="list">
              <thead>
                <tr>
                  <th scope="col">Scenario</th>
                  <th scope="col">Attempts, by reward</th>
                  <th scope="col">Group</th>
                  <th scope="col">Graded by</th>
                </tr>
              </thead>
              <tbody>
                {groups.map(({ group, scenario, status, graded_by, members }) => (
                  <tr key={group}>
                    <th scope="row">
                      <a href={hrefOf(["runs", id, "trajectories", update, group])}>{scenario}</a>
                    </th>
                    <td>
                      <div class="members">
                        {members.map((member) => (
                          <MemberLink
                            key={member.member}
                            member={member}
                            href={hrefOf(["runs", id, "trajectories", update, group], {
                              member: member.member,
                            })}
                          />
                        ))}
                      </div>
                    </td>
                    <td>{GROUP_TEXTS[status]}</td>
                    <td>{graded_by ?? "–"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Loading>
    </>
  );
}
