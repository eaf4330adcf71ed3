/** The attempts at one scenario: one in full, or two side by side. */

import type { TrajectoryGroup, TrajectoryMember } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { Conversation } from "../parts/conversation.tsx";
import { type Fact, Facts } from "../parts/facts.tsx";
import { durationText, numberText } from "../parts/format.ts";
import { Loading } from "../parts/loading.tsx";
import { hrefOf, place } from "../routes.ts";

interface GroupPlace {
  id: string;
  update: string;
  group: string;
}

function factsOf(member: TrajectoryMember): Fact[] {
  const { stop_reason, status, total_reward, terminal_reward, advantage, action_tokens, timings } = member;
  return [
    ["Reward", numberText(total_reward)],
    ["Final", numberText(terminal_reward)],
    ["Advantage", numberText(advantage)],
    ["Ended", stop_reason.replaceAll("_", " ")],
    ["Status", status.replace("_", " ")],
    ["Tokens", String(action_tokens)],
    ["Time", durationText(timings.rollout_ms / 1000)],
  ];
}

function Grading({ member: { verification, judge, failure, attribution } }: { member: TrajectoryMember }) {
  return (
    <>
      {failure && (
        <p class="field-error">
          {failure.boundary} failed{attribution && `, attributed to the ${attribution}`}: {failure.message}
        </p>
      )}
      {verification && (
        <p>
          Verification {verification.ended}
          {verification.code !== null && ` with status ${verification.code}`}
          {verification.output && <pre class="text">{verification.output}</pre>}
        </p>
      )}
      {judge && <p>Judge: {numberText(judge.score)}. {judge.explanation}</p>}
    </>
  );
}

function Member({ member }: { member: TrajectoryMember }) {
  return (
    <article class="member-column">
      <h2>Attempt {member.member}</h2>
      <Facts facts={factsOf(member)} is_small />
      <Grading member={member} />
      <Conversation member={member} />
    </article>
  );
}

/** Where two attempts part. */
function FirstDifference({ at, a, b }: { at: GroupPlace; a: number; b: number }) {
  const { id, update, group } = at;
  const loaded = useCall("GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff", {
    params: { id, update, group },
    query: { a, b },
  });
  return (
    <Loading of={loaded} what="the first difference">
      {({ turn, token, a_token, b_token }) =>
        token === null ? <p>Both have the same tokens.</p> : (
          <p>
            They part at token {token}
            {turn !== null && `, in turn ${turn + 1}`}: <code>{a_token?.text ?? "the end"}</code> against{" "}
            <code>{b_token?.text ?? "the end"}</code>
          </p>
        )}
    </Loading>
  );
}

function Members({ at, group, chosen, beside }: {
  at: GroupPlace;
  group: TrajectoryGroup;
  chosen: number;
  beside: number | null;
}) {
  const { id, update } = at, one = group.members.find(({ member }) => member === chosen);
  const other = group.members.find(({ member }) => member === beside);
  const hrefWith = (query: { member: number; beside: number | null }) =>
    hrefOf(["runs", id, "trajectories", update, at.group], query);
  const others = group.members.filter(({ member }) => member !== chosen);
  return (
    <>
      <nav class="tabs" aria-label="attempts">
        {group.members.map(({ member, total_reward }) => (
          <a
            key={member}
            href={hrefWith({ member, beside: member === beside ? null : beside })}
            aria-current={member === chosen ? "page" : undefined}
          >
            {member} <span class="quiet">{numberText(total_reward)}</span>
          </a>
        ))}
        {others.length > 0 && (
          <label class="beside">
            <span class="quiet">beside</span>
            <select
              value={beside ?? ""}
              onChange={({ currentTarget: { value } }) =>
                location.assign(hrefWith({ member: chosen, beside: value === "" ? null : Number(value) }))}
            >
              <option value="">none</option>
              {others.map(({ member }) => <option key={member} value={member}>attempt {member}</option>)}
            </select>
          </label>
        )}
      </nav>
      {one && other && <FirstDifference at={at} a={chosen} b={other.member} />}
      <div class={other ? "columns two" : "columns"}>
        {one ? <Member member={one} /> : <p>There is no attempt {chosen} in this group.</p>}
        {other && <Member member={other} />}
      </div>
    </>
  );
}

export function TrajectoryGroupView({ id, update, group }: GroupPlace) {
  const loaded = useCall("GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}", {
    params: { id, update, group },
    query: { limit: 500 },
  });
  const { query } = place.value, beside = query.get("beside");
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["runs", id, "trajectories"])}>All updates</a> /{" "}
        <a href={hrefOf(["runs", id, "trajectories", update])}>update {update}</a> /{" "}
        {loaded.value?.scenario ?? `group ${group}`}
      </p>
      <Loading of={loaded} what="the attempts">
        {(value) => (
          <Members
            at={{ id, update, group }}
            group={value}
            chosen={Number(query.get("member") ?? value.members[0]?.member ?? 0)}
            beside={beside === null ? null : Number(beside)}
          />
        )}
      </Loading>
    </>
  );
}
