/** `algorithm = "preference"`: every update is one optimiser step on preference pairs. */

import type { ResolvedConfig } from "../../../config/check/derive.ts";
import type { Clock } from "../../../core/clock.ts";
import { assert } from "../../../core/errors.ts";
import {
  needsReference,
  pairLoss,
  type PairLossOptions,
  type ScoredCompletion,
} from "../../../core/preference_loss.ts";
import type { CompletionName } from "../../../data/pair.ts";
import type { EngineClient } from "../../../trainer/protocol/client.ts";
import type { SampleMeasure, TrainingSample } from "../../../trainer/protocol/protocol.ts";
import { evenExample, type Example, ratio } from "../../record/paired_comparison.ts";
import type {
  Algorithm,
  EvaluationRequest,
  EvaluationResult,
  UpdateRequest,
  UpdateResult,
} from "../algorithm.ts";
import { consecutiveBatches, EpochSteps } from "../epochs.ts";
import { optimizerRequest } from "../optimizer_step.ts";
import { rowCounts, SCORED_TOKENS } from "../rendered_rows.ts";
import { learnRows } from "../row_update.ts";
import { atMask, type Metrics } from "../step_metrics.ts";
import { type PairData, pairSamples, pairTokens } from "./pair_rows.ts";

/** The objective of an evaluation of pairs. */
export const OBJECTIVE = "eval/loss";

/** The engine's name of the initial adapter, if the policy has one. */
export const REFERENCE = "reference";

export interface PreferenceOptions {
  config: ResolvedConfig;
  data: PairData;
  heldout: PairData | null;
  engine: EngineClient;
  /** The engine's name of the adapter that is trained. */
  adapter: string;
  clock: Clock;
}

/** The pairs of every update. */
export function stepsOf({ run, training }: ResolvedConfig, { pairs }: PairData): EpochSteps {
  return new EpochSteps({ costs: pairs.map(pairTokens), seed: run.seed, training });
}

export class Preference implements Algorithm {
  readonly updates: number | null;
  readonly steps_per_update = 1;
  readonly objective: Algorithm["objective"];
  readonly #options: PreferenceOptions;
  readonly #loss: PairLossOptions;
  readonly #rows: EpochSteps;

  constructor(options: PreferenceOptions) {
    const { config, data, heldout } = options, { preference } = config;
    const { loss, beta, gamma, lambda } = preference!;
    this.#options = options;
    this.#loss = { loss, beta, gamma, lambda };
    this.#rows = stepsOf(config, data);
    this.updates = this.#rows.count;
    this.objective = heldout && OBJECTIVE;
  }

  async runUpdate(
    { update, examples_seen, learningRate, signal, activity }: UpdateRequest,
  ): Promise<UpdateResult> {
    const { config, data, engine, adapter, clock } = this.#options;
    activity?.show({ phase: "training", update, updates: this.updates });
    const pairs = this.#rows.after(examples_seen).map((row) => data.pairs[row]!);
    const { samples: plain, rejected, pair_of } = pairSamples(pairs);
    const optimizer = optimizerRequest(config.training, learningRate(0));
    return await learnRows({ engine, clock }, {
      ...{ update, examples_seen, signal, rows: pairs.length },
      prepare: async () => ({
        adapter,
        samples: await this.#withReference(plain, signal),
        loss: { type: "preference", ...this.#loss, rejected, normalizer: pairs.length },
        optimizer,
      }),
      measure: ({ samples }) => scoreMetrics(samples, { rejected, pair_of }),
    });
  }

  /** Means over the held-out pairs: the loss, the margin between the scores, the share with a margin above 0. */
  async evaluate({ adapter, limit, signal, activity }: EvaluationRequest): Promise<EvaluationResult> {
    const { heldout, engine } = this.#options;
    assert(heldout, "an evaluation without held-out pairs");
    const pairs = heldout.pairs.slice(0, limit);
    const by_line: Record<number, Example> = {}, margins: number[] = [];
    for (const batch of consecutiveBatches(pairs, pairTokens, SCORED_TOKENS)) {
      signal.throwIfAborted();
      activity?.show({ phase: "evaluation", done: margins.length, total: pairs.length });
      const { samples: plain, ...members } = pairSamples(batch);
      const samples = await this.#withReference(plain, signal);
      const { logprobs } = await engine.call("score", { adapter, samples }, signal);
      for (const [pair, { line }] of batch.entries()) {
        const { chosen, rejected } = completionsOf(pair, { samples, logprobs, ...members });
        const { loss, margin } = pairLoss(chosen, rejected, this.#loss);
        by_line[line] = evenExample(loss);
        margins.push(margin);
      }
    }
    return {
      pass_rate: null,
      reward_mean: null,
      loss: ratio(Object.values(by_line)),
      perplexity: null,
      values: marginValues("eval", margins),
      rows: rowCounts(pairs, heldout.truncated),
      failed: {},
      failure: null,
      failures: {},
      scenarios: [],
      by_example: by_line,
      deterministic: true,
    };
  }

  /** Adds the initial policy's log-probabilities to samples when the loss compares with it. */
  async #withReference(samples: TrainingSample[], signal: AbortSignal): Promise<TrainingSample[]> {
    if (!needsReference(this.#loss.loss)) return samples;
    const { config, engine } = this.#options;
    const adapter = config.lora.init_adapter === undefined ? null : REFERENCE;
    const { logprobs } = await engine.call("score", { adapter, samples }, signal);
    return samples.map((sample, i) => ({ ...sample, reference_logprobs: placed(sample, logprobs[i]!) }));
  }
}

/** Values of a sample's trained tokens at their positions; 0 elsewhere. */
function placed({ loss_mask }: TrainingSample, values: Float32Array): Float32Array {
  let k = 0;
  return Float32Array.from(loss_mask, (m) => m === 1 ? values[k++]! : 0);
}

/** Of each sample its pair, and whether it belongs to the rejected completion. */
interface PairMembers {
  rejected: readonly boolean[];
  pair_of: readonly number[];
}

function completionsOf(
  pair: number,
  { samples, logprobs, rejected, pair_of }: PairMembers & {
    samples: readonly TrainingSample[];
    logprobs: readonly Float32Array[];
  },
): Record<CompletionName, ScoredCompletion> {
  const of = (is_rejected: boolean): ScoredCompletion => {
    const own = [...samples.keys()].filter((i) => pair_of[i] === pair && rejected[i] === is_rejected);
    return {
      logprobs: own.flatMap((i) => [...logprobs[i]!]),
      reference_logprobs: own.flatMap((i) =>
        samples[i]!.reference_logprobs ? atMask(samples[i]!, samples[i]!.reference_logprobs) : []
      ),
    };
  };
  return { chosen: of(false), rejected: of(true) };
}

/** Metrics of a step's pairs from their scores before the step. */
function scoreMetrics(measured: readonly SampleMeasure[], { rejected, pair_of }: PairMembers): Metrics {
  const pairs = [...new Set(pair_of)];
  const scoreOf = (pair: number, is_rejected: boolean) =>
    measured[pair_of.findIndex((of, i) => of === pair && rejected[i] === is_rejected)]!.score!;
  const chosen = pairs.map((pair) => scoreOf(pair, false)), others = pairs.map((pair) => scoreOf(pair, true));
  return {
    "preference/chosen_score": mean(chosen),
    "preference/rejected_score": mean(others),
    ...marginValues("preference", chosen.map((score, pair) => score - others[pair]!)),
  };
}

function marginValues(area: "preference" | "eval", margins: readonly number[]): Metrics {
  return {
    [`${area}/margin`]: mean(margins),
    [`${area}/accuracy`]: mean(margins.map((margin) => margin > 0 ? 1 : 0)),
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
