/** The attempts at one scenario: one in full, or two side by side. */

import { useState } from "preact/hooks";
import type { TrajectoryGroupSummary, TrajectoryMemberSummary } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { lossesOf, lossOf, toneOf } from "../parts/attempt.ts";
import { Conversation } from "../parts/conversation.tsx";
import { numberText } from "../parts/format.ts";
import { type KeyBinding, Shortcuts, useKeys } from "../parts/keys.tsx";
import { Loading } from "../parts/loading.tsx";
import { TokenView } from "../parts/token_view.tsx";
import { hrefOf, place, replacePlace } from "../routes.ts";
import { AttemptCopies } from "./trajectory_copies.tsx";
import { MemberHead } from "./trajectory_member.tsx";
import { GROUP_TEXTS } from "./trajectory_updates.tsx";
import { Pair } from "./trajectory_pair.tsx";
import { besideOf, type GroupPlace, type MemberPlace, segmentsTo } from "./trajectory_places.ts";

const SIGNS = { kept: "", dropped: "⊘ ", failed: "✕ ", group_dropped: "⊘ " } as const;

function MemberTabs({ at, members, chosen, beside }: {
  at: GroupPlace;
  members: readonly TrajectoryMemberSummary[];
  chosen: number;
  beside: MemberPlace | null;
}) {
  const { query } = place.value;
  return (
    <nav class="tabs member-tabs" aria-label="attempts">
      {members.map((summary) => {
        const { member, total_reward, status } = summary, loss = lossOf(summary);
        const is_same = beside?.group === at.group && beside.update === at.update && beside.member === member;
        const next = { ...Object.fromEntries(query), member, token: null, ...(is_same && { beside: null }) };
        return (
          <a
            key={member}
            href={hrefOf(segmentsTo(at), next)}
            aria-current={member === chosen ? "page" : undefined}
            title={loss ?? undefined}
          >
            attempt {member}{" "}
            <span class={`member is-${status} ${toneOf(summary)}`}>
              <span class="unseen">, reward</span>
              {SIGNS[status]}
              {numberText(total_reward)}
            </span>
            {loss && <span class="unseen">, {loss}</span>}
          </a>
        );
      })}
    </nav>
  );
}

/** Chooses what stands beside the attempt: one of its siblings, or one at the same scenario in another update. */
function BesideChoice({ at, scenario, members, chosen }: {
  at: GroupPlace;
  scenario: string;
  members: readonly TrajectoryMemberSummary[];
  chosen: number;
}) {
  const { query } = place.value, value = query.get("beside") ?? "";
  const { value: history } = useCall("GET /v1/runs/{id}/scenarios/{scenario}", {
    params: { id: at.id, scenario },
    query: { limit: 500 },
  });
  const others =
    history?.groups.filter(({ update, texts_kept }) => texts_kept && String(update) !== at.update) ?? [];
  const siblings = members.filter(({ member }) => member !== chosen);
  const known = [...siblings.map(({ member }) => String(member))];
  const rest = others.map(({ update, group, attempts }) => {
    const member = Math.min(besideOf(at, value)?.member ?? chosen, attempts - 1);
    return { value: `${update}-${group}-${member}`, label: `update ${update}` };
  });
  const is_known = value === "" || known.includes(value) || rest.some((other) => other.value === value);
  return (
    <label class="field beside">
      <span>Beside it</span>
      <select
        value={value}
        onChange={({ currentTarget }) =>
          replacePlace(segmentsTo(at), { ...Object.fromEntries(query), beside: currentTarget.value })}
      >
        <option value="">nothing</option>
        {!is_known && <option value={value}>attempt {value}</option>}
        <optgroup label="This group">
          {siblings.map(({ member, total_reward }) => (
            <option key={member} value={String(member)}>
              attempt {member}, reward {numberText(total_reward)}
            </option>
          ))}
        </optgroup>
        {rest.length > 0 && (
          <optgroup label="The same scenario">
            {rest.map(({ value, label }) => <option key={value} value={value}>{label}</option>)}
          </optgroup>
        )}
      </select>
    </label>
  );
}

/** One attempt with its texts. The one before stays while it is loaded, so that a page full of text keeps its place. */
function useMember({ id, update, group }: GroupPlace, member: number) {
  return useCall("GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}", {
    params: { id, update, group },
    query: { member },
  }, { keeps_other: true });
}

function Alone({ at, chosen, is_open }: { at: GroupPlace; chosen: number; is_open: boolean }) {
  const loaded = useMember(at, chosen);
  return (
    <Loading of={loaded} what="the attempt">
      {(answer) => {
        const { members: [member], task } = answer;
        return member && (
          <section class="one-attempt" aria-busy={member.member !== chosen}>
            <MemberHead member={member} title={`Attempt ${member.member}`} />
            <AttemptCopies at={at} answer={answer} />
            <Conversation member={member} task={task} is_open={is_open} />
          </section>
        );
      }}
    </Loading>
  );
}

function Beside({ at, chosen, beside, is_open }: {
  at: GroupPlace;
  chosen: number;
  beside: MemberPlace;
  is_open: boolean;
}) {
  const one = useMember(at, chosen), other = useMember(beside, beside.member);
  return (
    <Loading of={one} what="the attempt">
      {({ members: [a], task }) => (
        <Loading of={other} what="the attempt beside it">
          {({ members: [b], task: task_of_b }) =>
            a && b && (
              <Pair
                a={a}
                b={b}
                tasks={[task, task_of_b]}
                at={at}
                beside={beside}
                is_open={is_open}
              />
            )}
        </Loading>
      )}
    </Loading>
  );
}

function TokensOf({ at, chosen }: { at: GroupPlace; chosen: number }) {
  const loaded = useMember(at, chosen);
  return (
    <Loading of={loaded} what="the attempt">
      {({ members: [member], texts_kept }) =>
        member && (texts_kept
          ? <TokenView key={`${at.update} ${at.group} ${member.member}`} at={at} member={member} />
          : <p class="quiet">The tokens of this update were not kept.</p>)}
    </Loading>
  );
}

function GroupLine(
  { group: { status, graded_by, toolset, line, members } }: { group: TrajectoryGroupSummary },
) {
  const losses = lossesOf(members);
  return (
    <p class="group-line">
      {GROUP_TEXTS[status]}
      {graded_by && ` · graded by ${graded_by === "environment" ? "its verification" : `a ${graded_by}`}`}
      {` · line ${line} of the scenarios`}
      {toolset && ` · toolset ${toolset.name}, version ${toolset.version}`}
      {losses !== "" && <span class="losses">{losses}</span>}
    </p>
  );
}

/** The attempt that is shown, and how. */
function Members({ at, groups, summary }: {
  at: GroupPlace;
  groups: readonly TrajectoryGroupSummary[];
  summary: TrajectoryGroupSummary;
}) {
  const { members, scenario } = summary, { query } = place.value;
  const chosen = Number(query.get("member") ?? members[0]?.member ?? 0);
  const beside = besideOf(at, query.get("beside")), has_tokens = query.get("view") === "tokens";
  const [is_open, setOpen] = useState(false), segments = segmentsTo(at), all = Object.fromEntries(query);
  const index = members.findIndex(({ member }) => member === chosen);
  const step = (by: number) => {
    const next = members[index + by];
    return next && (() => replacePlace(segments, { ...all, member: next.member, token: null }));
  };
  const groupStep = (by: number) => {
    const next = groups[groups.indexOf(summary) + by];
    return next && (() => location.assign(hrefOf([...segments.slice(0, -1), next.group])));
  };
  const keys: KeyBinding[] = [
    { keys: ["j", "ArrowRight"], what: "next attempt", action: step(1) },
    { keys: ["k", "ArrowLeft"], what: "previous", action: step(-1) },
    { keys: ["n"], what: "next scenario", action: groupStep(1) },
    { keys: ["p"], what: "previous scenario", action: groupStep(-1) },
    { keys: ["o"], what: "open all calls", action: () => setOpen(!is_open) },
    {
      keys: ["t"],
      what: "tokens",
      action: () => replacePlace(segments, { ...all, view: has_tokens ? null : "tokens" }),
    },
    {
      keys: ["u"],
      what: "up",
      action: () => location.assign(hrefOf(segments.slice(0, -1))),
    },
  ];
  useKeys(keys);
  return (
    <>
      <GroupLine group={summary} />
      <MemberTabs at={at} members={members} chosen={chosen} beside={beside} />
      <div class="attempt-bar">
        <div class="segmented" role="group" aria-label="what is shown">
          <a href={hrefOf(segments, { ...all, view: null })} aria-current={!has_tokens || undefined}>
            Conversation
          </a>
          <a href={hrefOf(segments, { ...all, view: "tokens" })} aria-current={has_tokens || undefined}>
            Tokens
          </a>
        </div>
        {!has_tokens && (
          <>
            <button type="button" aria-pressed={is_open} onClick={() => setOpen(!is_open)}>
              Open all calls
            </button>
            <BesideChoice at={at} scenario={scenario} members={members} chosen={chosen} />
          </>
        )}
      </div>
      {index < 0
        ? <p>There is no attempt {chosen} in this group.</p>
        : has_tokens
        ? <TokensOf at={at} chosen={chosen} />
        : beside
        ? <Beside at={at} chosen={chosen} beside={beside} is_open={is_open} />
        : <Alone at={at} chosen={chosen} is_open={is_open} />}
      <Shortcuts bindings={keys} />
    </>
  );
}

export function TrajectoryGroupView(at: GroupPlace) {
  const { id, update, group } = at;
  const loaded = useCall("GET /v1/runs/{id}/trajectories/updates/{update}", {
    params: { id, update },
    query: { limit: 500 },
  });
  const summary = loaded.value?.groups.find((each) => String(each.group) === group);
  return (
    <>
      <p class="crumbs">
        <a href={hrefOf(["runs", id, "trajectories"])}>All updates</a> /{" "}
        <a href={hrefOf(["runs", id, "trajectories", update])}>update {update}</a> / {summary
          ? <a href={hrefOf(["runs", id, "scenarios", summary.scenario])}>{summary.scenario}</a>
          : `group ${group}`}
      </p>
      <Loading of={loaded} what="the attempts">
        {({ groups }) =>
          summary
            ? <Members at={at} groups={groups} summary={summary} />
            : <p>There is no group {group} in update {update}.</p>}
      </Loading>
    </>
  );
}
