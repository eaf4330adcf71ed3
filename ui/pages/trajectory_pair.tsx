/** Two attempts side by side, turn by turn. */

import type { TrajectoryDiff, TrajectoryMember, TrajectoryTask } from "../../api/types.ts";
import { useCall } from "../client/use_call.ts";
import { Checked } from "../parts/checked.tsx";
import { BrokeAt, Grading, type Parting, Prompt, type Split, splitOf, Turn } from "../parts/conversation.tsx";
import { ProblemBox } from "../parts/problem.tsx";
import { partingsOf } from "../parts/parting.ts";
import { hrefOf } from "../routes.ts";
import { MemberHead } from "./trajectory_member.tsx";
import { type GroupPlace, type MemberPlace, segmentsTo } from "./trajectory_places.ts";

interface PairProps {
  a: TrajectoryMember;
  b: TrajectoryMember;
  /** Of each, null where it is not known. */
  tasks: readonly [TrajectoryTask | null, TrajectoryTask | null];
  at: GroupPlace;
  beside: MemberPlace;
  is_open: boolean;
}

/** Siblings, with the place where they part. */
function Siblings(props: PairProps) {
  const { a, b, at: { id, update, group } } = props;
  const { value: diff, error, retry } = useCall(
    "GET /v1/runs/{id}/trajectories/updates/{update}/groups/{group}/diff",
    { params: { id, update, group }, query: { a: a.member, b: b.member } },
  );
  const is_this = diff?.a === a.member && diff.b === b.member;
  return (
    <>
      {error !== null && <ProblemBox error={error} onRetry={retry} />}
      <p class="parting-line" role="status">
        {is_this ? <PartingLine {...props} diff={diff} /> : "Comparing …"}
      </p>
      <Columns {...props} diff={is_this ? diff : null} />
    </>
  );
}

function PartingLine(
  { a, at, diff: { token, turn, a_token, b_token } }: PairProps & { diff: TrajectoryDiff },
) {
  if (token === null) return <>Both attempts have the same tokens.</>;
  return (
    <>
      They part {turn === null ? "before the first turn" : `in turn ${turn + 1}`}, at{" "}
      <a href={hrefOf(segmentsTo(at), { member: a.member, view: "tokens", token })}>token {token}</a>:{" "}
      <mark class="parting">{a_token?.text ?? "⟨end⟩"}</mark> against{" "}
      <mark class="parting">{b_token?.text ?? "⟨end⟩"}</mark>
    </>
  );
}

/** A turn of one of them. */
function Cell({ member, at, split, parting, is_open }: {
  member: TrajectoryMember;
  at: number;
  split: Split;
  parting: Parting | null;
  is_open: boolean;
}) {
  const turn = member.turns[at], answer = split.answers[at] ?? null;
  return (
    <div>
      {turn
        ? <Turn member={member} turn={turn} answer={answer} parting={parting} is_open={is_open} />
        : <p class="quiet absent">It has ended.</p>}
    </div>
  );
}

/** How both ended, and what each was checked by. */
function Ends({ a, b, tasks }: Pick<PairProps, "a" | "b" | "tasks">) {
  const is_same_task = JSON.stringify(tasks[0]) === JSON.stringify(tasks[1]);
  return (
    <>
      {is_same_task && tasks[0] && (
        <div class="both">
          <Checked task={tasks[0]} />
        </div>
      )}
      {[a, b].map((member, i) => (
        <div key={`end ${i}`}>
          {!is_same_task && tasks[i] && <Checked task={tasks[i]} />}
          <BrokeAt member={member} place="start" />
          <BrokeAt member={member} place="end" />
          <Grading member={member} />
        </div>
      ))}
    </>
  );
}

function Columns({ a, b, tasks, at, beside, is_open, diff }: PairProps & { diff: TrajectoryDiff | null }) {
  const splitUp = ({ messages, turns }: TrajectoryMember) => splitOf(messages ?? [], turns.length);
  const of_a = splitUp(a), of_b = splitUp(b);
  const is_same_prompt = JSON.stringify(of_a.prompt) === JSON.stringify(of_b.prompt);
  const partings = diff && partingsOf(a, b, diff);
  // Before the turn in which they part, all tokens are the same.
  const same = diff === null ? 0 : diff.token === null ? a.turns.length : diff.turn ?? 0;
  const partingAt = (i: number, side: 0 | 1) => diff?.turn === a.turns[i]?.turn && partings?.[side] || null;
  const titleOf = (member: TrajectoryMember, { update }: GroupPlace) =>
    `Attempt ${member.member}${at.update === beside.update ? "" : `, update ${update}`}`;
  return (
    <div class="conversation pair">
      <MemberHead member={a} title={titleOf(a, at)} />
      <MemberHead member={b} title={titleOf(b, beside)} />
      {is_same_prompt
        ? (
          <div class="both">
            <Prompt messages={of_a.prompt} />
          </div>
        )
        : [of_a, of_b].map(({ prompt }, i) => (
          <div key={i}>
            <Prompt messages={prompt} />
          </div>
        ))}
      {Array.from({ length: Math.max(a.turns.length, b.turns.length) }, (_, i) =>
        i < same && a.turns[i]
          ? (
            <div key={i} class="both">
              <Turn
                member={a}
                turn={a.turns[i]}
                answer={of_a.answers[i] ?? null}
                is_open={is_open}
                remark="the same in both"
              />
            </div>
          )
          : [
            <Cell
              key={`${i} a`}
              member={a}
              at={i}
              split={of_a}
              parting={partingAt(i, 0)}
              is_open={is_open}
            />,
            <Cell
              key={`${i} b`}
              member={b}
              at={i}
              split={of_b}
              parting={partingAt(i, 1)}
              is_open={is_open}
            />,
          ])}
      <Ends a={a} b={b} tasks={tasks} />
    </div>
  );
}

export function Pair(props: PairProps) {
  const { at, beside } = props, is_sibling = at.update === beside.update && at.group === beside.group;
  return is_sibling ? <Siblings {...props} /> : <Columns {...props} diff={null} />;
}
