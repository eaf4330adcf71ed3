/** The losses of preference pairs in f64, and the table of their terms, which the kernel links. */

/** Log-probabilities of a completion's trained tokens; the reference's are empty for losses without a reference. */
export interface ScoredCompletion {
  logprobs: readonly number[];
  reference_logprobs: readonly number[];
}

interface Parameters {
  beta: number;
  /** Margin of losses with `has_margin`. */
  gamma: number;
  /** Factor of the penalty of losses with `has_sft_term`. */
  lambda: number;
}

/**
 * The penalty p of the difference x between two scores. `logistic`: −log σ(x); `squared`: (x − 1/(2β))².
 *
 * A new one is a name here, a line in {@link PENALTIES}, and a part with its derivative in kernels/loss/, which
 * `preference_loss.ts` there imports and lists.
 */
export type Penalty = "logistic" | "squared";

/**
 * What a loss may have; see {@link PREFERENCE_LOSSES}. `has_reference`: log-probabilities of a reference policy are
 * subtracted; `is_mean`: log-probabilities are averaged over the tokens of a completion, not added; `is_odds`: a score is
 * the logarithm of the odds; `is_scaled`: a score is multiplied by β; `has_margin`: the scores should differ by γ;
 * `has_sft_term`: −w̄ is added, and the penalty multiplied by λ.
 */
const TERMS = ["has_reference", "is_mean", "is_odds", "is_scaled", "has_margin", "has_sft_term"] as const;
type Term = typeof TERMS[number];

/** Which terms a loss has. */
const only = (...present: Term[]) =>
  Object.fromEntries(TERMS.map((term) => [term, present.includes(term)])) as Record<Term, boolean>;

interface PreferenceFormula {
  /** The default of `preference.beta`. */
  beta: number;
  penalty: Penalty;
  terms: Readonly<Record<Term, boolean>>;
}

/**
 * All losses, as terms of one formula. The sum is over the trained tokens of a completion y; w is the chosen one, l the
 * rejected one, w̄ the mean log-probability of w. Terms in brackets are those that a loss may have:
 *
 *     v(y) = Σ (logprob [− reference_logprob]) [/ |y|]
 *     s(y) = [β] (v [− log(1 − exp(v))])
 *     loss = [λ] p(s(w) − s(l) [− γ]) [− w̄]
 *
 * A new loss is a line here when it has these terms and a known penalty.
 *
 * @source Rafailov et al., "DPO" (2023), equation 7; Azar et al., "IPO" (2023), equation 17; Meng et al., "SimPO" (2024),
 * equation 6; Hong et al., "ORPO" (2024), equations 6 and 7.
 */
export const PREFERENCE_LOSSES = {
  dpo: { beta: 0.1, penalty: "logistic", terms: only("has_reference", "is_scaled") },
  ipo: { beta: 0.1, penalty: "squared", terms: only("has_reference", "is_mean") },
  simpo: { beta: 2, penalty: "logistic", terms: only("is_mean", "is_scaled", "has_margin") },
  orpo: { beta: 0.1, penalty: "logistic", terms: only("is_mean", "is_odds", "has_sft_term") },
} satisfies Record<string, PreferenceFormula>;

/** The name of a loss. */
export type PreferenceLoss = keyof typeof PREFERENCE_LOSSES;

/** The names, in the order of {@link PREFERENCE_LOSSES}. */
export const PREFERENCE_LOSS_NAMES = Object.keys(PREFERENCE_LOSSES) as PreferenceLoss[];

/** The names of the losses with a term. */
export function lossesWith(term: Term): PreferenceLoss[] {
  return PREFERENCE_LOSS_NAMES.filter((name) => PREFERENCE_LOSSES[name].terms[term]);
}

/** Whether a loss compares with a reference policy, so that it needs its log-probabilities. */
export function needsReference(loss: PreferenceLoss): boolean {
  return PREFERENCE_LOSSES[loss].terms.has_reference;
}

/** A preference loss and its parameters. */
export interface PairLossOptions extends Parameters {
  loss: PreferenceLoss;
}

const PENALTIES: Readonly<Record<Penalty, (x: number, parameters: Parameters) => number>> = {
  logistic: (x) => Math.max(-x, 0) + Math.log1p(Math.exp(-Math.abs(x))),
  squared: (x, { beta }) => (x - 1 / (2 * beta)) ** 2,
};

/** As in the kernel: the odds of a nearly certain completion would be unbounded. */
const LEAST_DOUBT = 1e-6;

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;

/** s(y) of {@link PREFERENCE_LOSSES}. */
function scoreOf(
  { logprobs, reference_logprobs }: ScoredCompletion,
  { terms, beta }: Pick<PreferenceFormula, "terms" | "beta">,
): number {
  const total = terms.is_mean ? mean : sum;
  const value = total(logprobs) - (terms.has_reference ? total(reference_logprobs) : 0);
  const score = terms.is_odds ? value - Math.log(Math.max(-Math.expm1(value), LEAST_DOUBT)) : value;
  return terms.is_scaled ? beta * score : score;
}

/** The loss of a pair, the scores of its completions, and their difference. */
export function pairLoss(
  chosen: ScoredCompletion,
  rejected: ScoredCompletion,
  { loss: name, ...parameters }: PairLossOptions,
): { loss: number; scores: [chosen: number, rejected: number]; margin: number } {
  const { terms, penalty }: PreferenceFormula = PREFERENCE_LOSSES[name];
  const { beta, gamma, lambda } = parameters;
  const scores: [number, number] = [scoreOf(chosen, { terms, beta }), scoreOf(rejected, { terms, beta })];
  const margin = scores[0] - scores[1];
  const punished = PENALTIES[penalty](margin - (terms.has_margin ? gamma : 0), parameters);
  const loss = terms.has_sft_term ? lambda * punished - mean(chosen.logprobs) : punished;
  return { loss, scores, margin };
}
