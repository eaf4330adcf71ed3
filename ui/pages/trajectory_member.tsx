/** What an attempt came to. */

import type { TrajectoryMember } from "../../api/types.ts";
import { endingOf, lossOf, rewardSum } from "../parts/attempt.ts";
import { type Fact, Facts } from "../parts/facts.tsx";
import { numberText } from "../parts/format.ts";
import { Timeline } from "../parts/timeline.tsx";

function factsOf(member: TrajectoryMember): Fact[] {
  const { total_reward, advantage, action_tokens, tokens, turns, judge } = member;
  return [
    ["Reward", numberText(total_reward)],
    ["Advantage", numberText(advantage)],
    ...(judge ? [["Judge", numberText(judge.score)] as const] : []),
    ["Ended", endingOf(member)],
    ["Turns", String(turns.length)],
    ["Tokens written", `${action_tokens.toLocaleString("en")} of ${tokens.toLocaleString("en")}`],
  ];
}

/** What an attempt came to, before its conversation. */
export function MemberHead({ member, title }: { member: TrajectoryMember; title: string }) {
  const loss = lossOf(member);
  return (
    <header class="member-head">
      <h2>{title}</h2>
      {loss && <p class="not-trained">Not trained on: {loss}.</p>}
      <Facts facts={factsOf(member)} is_small />
      <p class="quiet">
        {rewardSum(member)}
        {member.malformed_calls > 0 && ` · ${member.malformed_calls} malformed calls`}
        {!member.deterministic && " · not deterministic"}
      </p>
      <Timeline member={member} />
    </header>
  );
}
