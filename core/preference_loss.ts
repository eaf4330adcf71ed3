/** The losses of preference pairs in f64, and what each needs. kernels/loss/preference_loss.wgsl has the same formulas. */

/** Log-probabilities of a completion's trained tokens; the reference's are empty for losses without a reference. */
export interface ScoredCompletion {
  logprobs: readonly number[];
  reference_logprobs: readonly number[];
}

interface Parameters {
  beta: number;
  /** Margin of simpo. */
  gamma: number;
  /** Factor of orpo's odds-ratio term. */
  lambda: number;
}

interface Formula {
  /** Whether it compares with a reference policy. */
  has_reference: boolean;
  /** The default of `preference.beta`. */
  beta: number;
  score(completion: ScoredCompletion, parameters: Parameters): number;
  /** @param margin The score of the chosen completion minus that of the rejected one. */
  loss(margin: number, chosen: ScoredCompletion, parameters: Parameters): number;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;

/** −log σ(x) */
const softplusOfMinus = (x: number) => Math.max(-x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** As in the kernel: the odds of a nearly certain completion would be unbounded. */
const LEAST_DOUBT = 1e-6;

/**
 * All losses, in the order of their numbers in the kernel. Σy is the sum of a completion's log-probabilities, ȳ their
 * mean; chosen w, rejected l, margin x = s(w) − s(l):
 *
 * - dpo: s = β (Σy − Σy_ref), loss −log σ(x)
 * - ipo: s = ȳ − ȳ_ref, loss (x − 1/(2β))²
 * - simpo: s = β ȳ, loss −log σ(x − γ)
 * - orpo: s = ȳ − log(1 − exp(ȳ)), loss −w̄ − λ log σ(x)
 *
 * @source as kernels/loss/preference_loss.wgsl.
 */
export const PREFERENCE_LOSSES = {
  dpo: {
    has_reference: true,
    beta: 0.1,
    score: (y, { beta }) => beta * (sum(y.logprobs) - sum(y.reference_logprobs)),
    loss: softplusOfMinus,
  },
  ipo: {
    has_reference: true,
    beta: 0.1,
    score: (y) => mean(y.logprobs) - mean(y.reference_logprobs),
    loss: (margin, _, { beta }) => (margin - 1 / (2 * beta)) ** 2,
  },
  simpo: {
    has_reference: false,
    beta: 2,
    score: (y, { beta }) => beta * mean(y.logprobs),
    loss: (margin, _, { gamma }) => softplusOfMinus(margin - gamma),
  },
  orpo: {
    has_reference: false,
    beta: 0.1,
    score: ({ logprobs }) => mean(logprobs) - Math.log(Math.max(-Math.expm1(mean(logprobs)), LEAST_DOUBT)),
    loss: (margin, { logprobs }, { lambda }) => lambda * softplusOfMinus(margin) - mean(logprobs),
  },
} satisfies Record<string, Formula>;

/** The name of a loss. */
export type PreferenceLoss = keyof typeof PREFERENCE_LOSSES;

/** The names, in the order of {@link PREFERENCE_LOSSES}. */
export const PREFERENCE_LOSS_NAMES = Object.keys(PREFERENCE_LOSSES) as PreferenceLoss[];

/** A preference loss and its parameters. */
export interface PairLossOptions extends Parameters {
  loss: PreferenceLoss;
}

/** The loss of a pair, and the scores of its completions. */
export function pairLoss(
  chosen: ScoredCompletion,
  rejected: ScoredCompletion,
  { loss: name, ...parameters }: PairLossOptions,
): { loss: number; scores: [chosen: number, rejected: number]; margin: number } {
  const { score, loss }: Formula = PREFERENCE_LOSSES[name];
  const scores: [number, number] = [score(chosen, parameters), score(rejected, parameters)];
  const margin = scores[0] - scores[1];
  return { loss: loss(margin, chosen, parameters), scores, margin };
}
