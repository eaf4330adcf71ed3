/** Builds the views of members, groups and tokens from the lines of an observe directory. */

import type {
  GroupFacts,
  MemberFacts,
  MemberTexts,
  ObservedUpdate,
  TokenPart,
} from "../../agent/results/observed.ts";
import { finiteMetrics } from "../record/finite_metrics.ts";
import type {
  MemberSummary,
  MemberView,
  TokenView,
  TrajectoryGroupSummary,
  UpdateSummary,
} from "./shapes.ts";

/** An update of the index as readers see it. */
export function updateSummary(entry: ObservedUpdate): UpdateSummary {
  const { update, time, step, groups, trajectories, kept, deterministic, texts_kept, metrics } = entry;
  const { reward_min, reward_mean, reward_max } = entry;
  return {
    ...{ update, time, step, trajectories, kept, reward_min, reward_mean, reward_max },
    ...{ deterministic, texts_kept },
    groups: groups.length,
    passes: groups.reduce((sum, { passes }) => sum + passes, 0),
    failed: groups.reduce((sum, { failed }) => sum + failed, 0),
    metrics: finiteMetrics(metrics),
  };
}

function memberFields(facts: MemberFacts) {
  const { member, stop_reason, status, failure, attribution, tokens, action_tokens, terminal_reward } = facts;
  const { total_reward, advantage, malformed_calls, deterministic, sandbox_lost, timings } = facts;
  return {
    ...{ member, stop_reason, status, failure, attribution, tokens, action_tokens, terminal_reward },
    ...{ total_reward, advantage, malformed_calls, deterministic, sandbox_lost, timings },
  };
}

/** A member without texts. */
export function memberSummary(facts: MemberFacts): MemberSummary {
  return { ...memberFields(facts), turns: facts.turns.length, judge_score: facts.judge_score };
}

/** The fields of a group besides its members. */
export function groupFields(group: number, facts: GroupFacts) {
  const { scenario, line, toolset, graded_by, status } = facts;
  return { group, scenario, line, toolset, graded_by, status };
}

/** A group without texts. */
export function groupSummary(group: number, facts: GroupFacts): TrajectoryGroupSummary {
  return { ...groupFields(group, facts), members: facts.members.map(memberSummary) };
}

/** A member with its texts, or with null for each when they are not there. */
export function memberView(facts: MemberFacts, texts: MemberTexts | null): MemberView {
  const { judge_score, verification } = facts;
  return {
    ...memberFields(facts),
    step_rewards: facts.step_rewards,
    judge: judge_score === null
      ? null
      : { score: judge_score, explanation: texts?.judge_explanation ?? null },
    verification: verification && { ...verification, output: texts?.verification_output ?? null },
    messages: texts?.messages ?? null,
    turns: facts.turns.map((turn, i) => {
      const said = texts?.turns[i];
      return {
        ...turn,
        advantage: facts.turn_advantages[i] ?? null,
        text: said?.text ?? null,
        calls: said?.calls ?? null,
        start: said?.start ?? null,
        end: said?.end ?? null,
      };
    }),
    fragments: texts && fragmentsOf(texts),
    spans: texts?.spans ?? null,
  };
}

function fragmentsOf({ fragments }: MemberTexts): { start: number; end: number }[] {
  let start = 0;
  return fragments.map((length) => ({ start, end: start += length }));
}

/** The tokens of a part: columns become rows. Values that only sampled tokens have are null for other tokens. */
export function tokenViews({ tokens, spans, sampled, texts }: TokenPart): TokenView[] {
  const views: TokenView[] = [];
  let column = 0;
  for (const { start, end, origin } of spans) {
    for (let i = start; i < Math.min(end, tokens.length); i++) {
      const id = tokens[i]!, k = origin === "model" ? column++ : -1;
      views.push({
        id,
        text: texts[i] ?? "",
        origin,
        trained: sampled.trained[k] ?? false,
        sampler_logprob: sampled.sampler_logprobs[k] ?? null,
        trainer_logprob: sampled.trainer_logprobs[k] ?? null,
        advantage: sampled.advantages[k] ?? null,
        ratio: sampled.ratios[k] ?? null,
        clipped: sampled.clipped[k] ?? null,
      });
    }
  }
  return views;
}
