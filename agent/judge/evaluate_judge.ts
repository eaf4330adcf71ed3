/** Measures a judge against labelled groups. Each group is judged in two orders: a shuffled one, and its reverse. */

import { errorText } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import type { JudgeFixture, LabelKind } from "../../data/judge_fixture.ts";
import { shownOrder } from "./judged_group.ts";
import {
  asShare,
  earlierWins,
  type Estimate,
  estimate,
  kendallTau,
  pairAccuracy,
  pairAgreement,
  type Share,
  spearmanRho,
} from "./rank_statistics.ts";
import type { Judgement, RulerJudge } from "./ruler_judge.ts";

/** What is measured of a judge. */
export interface JudgeStatistics {
  /** Kendall's τ-b of scores and labels: the mean over groups, each the mean of its two orders. */
  kendall_tau: Estimate;
  /** Spearman's ρ, likewise. */
  spearman_rho: Estimate;
  /** The share of pairs with different labels that the scores order like the labels; a tie counts half. */
  pair_accuracy: Estimate;
  /** The share of pairs that both orders' scores put alike. */
  self_agreement: Estimate;
  /** How much more often the attempt that was shown earlier won its pair: from −1 to 1; 0 is none. */
  position_bias: Estimate;
}

/** A judged group. */
export interface JudgedFixture {
  id: string;
  labels: number[];
  /** By order, then by trajectory. */
  scores: number[][];
}

/** What an evaluation found. */
export interface JudgeEvaluation {
  labels: LabelKind;
  fixtures: JudgedFixture[];
  /** Groups for which the judge gave no usable answer. */
  failed: { id: string; message: string }[];
  /** Of all usable answers. */
  tokens: number;
  statistics: JudgeStatistics;
}

/** Options of an evaluation. */
export interface EvaluateJudgeOptions {
  fixtures: readonly JudgeFixture[];
  labels: LabelKind;
  /** Determines the orders and the intervals. */
  seed: number;
  signal: AbortSignal;
  /** Called after each group. */
  onJudged?: (done: number) => void;
}

/**
 * Judges every fixture twice, and measures the scores. A group that fails is reported and in no statistic.
 *
 * @throws The signal's reason.
 */
export async function evaluateJudge(
  judge: RulerJudge,
  { fixtures, labels, seed, signal, onJudged }: EvaluateJudgeOptions,
): Promise<JudgeEvaluation> {
  const judged: { fixture: JudgedFixture; passes: Judgement[] }[] = [];
  const failed: JudgeEvaluation["failed"] = [];
  for (const [i, fixture] of fixtures.entries()) {
    try {
      const passes = await judgeTwice(judge, fixture, { seed, signal });
      const scores = passes.map((pass) => pass.scores.map(({ score }) => score));
      const own_labels = fixture.trajectories.map(({ label }) => label);
      judged.push({ fixture: { id: fixture.id, labels: own_labels, scores }, passes });
    } catch (error) {
      signal.throwIfAborted();
      failed.push({ id: fixture.id, message: errorText(error).replace(/^Error: |\n[^]*$/g, "") });
    }
    onJudged?.(i + 1);
  }
  return {
    labels,
    fixtures: judged.map(({ fixture }) => fixture),
    failed,
    tokens: judged.flatMap(({ passes }) => passes).reduce((sum, { tokens }) => sum + tokens, 0),
    statistics: statisticsOf(judged, { labels, seed }),
  };
}

async function judgeTwice(
  judge: RulerJudge,
  { id, rubric, trajectories }: JudgeFixture,
  { seed, signal }: { seed: number; signal: AbortSignal },
): Promise<Judgement[]> {
  const group = {
    rubric,
    tools: [],
    attempts: trajectories.map(({ messages }) => ({ messages, state: null })),
  };
  const orderOf = (distinct: number) => shownOrder(distinct, rngKey(seed, "judge_eval", id));
  const first = await judge.judge(group, orderOf, signal);
  return [first, await judge.judge(group, (distinct) => orderOf(distinct).reverse(), signal)];
}

function statisticsOf(
  judged: readonly { fixture: JudgedFixture; passes: readonly Judgement[] }[],
  { labels: kind, seed }: { labels: LabelKind; seed: number },
): JudgeStatistics {
  const estimated = (name: keyof JudgeStatistics, share: (group: typeof judged[number]) => Share) =>
    estimate(judged.map(share), rngKey(seed, "judge_eval", name));
  // The best has the largest value.
  const worth = ({ labels }: JudgedFixture) => kind === "ranks" ? labels.map((rank) => -rank) : labels;
  type Statistic = (scores: readonly number[], labels: readonly number[]) => number | null;
  const ofPasses = (statistic: Statistic) => ({ fixture }: typeof judged[number]) =>
    meanShare(fixture.scores.map((scores) => statistic(scores, worth(fixture))));
  return {
    kendall_tau: estimated("kendall_tau", ofPasses(kendallTau)),
    spearman_rho: estimated("spearman_rho", ofPasses(spearmanRho)),
    pair_accuracy: estimated(
      "pair_accuracy",
      ({ fixture }) => added(fixture.scores.map((scores) => pairAccuracy(scores, worth(fixture)))),
    ),
    self_agreement: estimated(
      "self_agreement",
      ({ fixture: { scores } }) => pairAgreement(scores[0]!, scores[1]!),
    ),
    position_bias: estimated(
      "position_bias",
      ({ fixture, passes }) =>
        added(passes.map(({ positions }, i) => earlierWins(fixture.scores[i]!, positions))),
    ),
  };
}

/** The mean of the values that are known. Scores that are all equal have no order; that counts as no correlation. */
function meanShare(values: readonly (number | null)[]): Share {
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return asShare(null);
  return asShare(known.reduce((sum, value) => sum + value, 0) / values.length);
}

function added(shares: readonly Share[]): Share {
  return {
    sum: shares.reduce((all, { sum }) => all + sum, 0),
    count: shares.reduce((all, { count }) => all + count, 0),
  };
}
