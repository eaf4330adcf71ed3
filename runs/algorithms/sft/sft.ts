/** `algorithm = "sft"`: every update is one optimiser step on rows of training examples. */

import type { ResolvedConfig } from "../../../config/check/derive.ts";
import type { Clock } from "../../../core/clock.ts";
import { assert } from "../../../core/errors.ts";
import type { EngineClient } from "../../../trainer/protocol/client.ts";
import { type Example, ratio } from "../../record/paired_comparison.ts";
import type {
  Algorithm,
  EvaluationRequest,
  EvaluationResult,
  UpdateRequest,
  UpdateResult,
} from "../algorithm.ts";
import { consecutiveBatches, EpochSteps } from "../epochs.ts";
import { optimizerRequest } from "../optimizer_step.ts";
import { rowCounts, SCORED_TOKENS, trainingSample } from "../rendered_rows.ts";
import { learnRows } from "../row_update.ts";
import type { SftData } from "./sft_rows.ts";

/** The objective of an evaluation of rows. */
export const OBJECTIVE = "eval/loss";

export interface SftOptions {
  config: ResolvedConfig;
  data: SftData;
  heldout: SftData | null;
  engine: EngineClient;
  /** The engine's name of the adapter that is trained. */
  adapter: string;
  clock: Clock;
}

/** The rows of every update. Without packing every row counts as `ctx` tokens. */
export function stepsOf({ run, sft, training }: ResolvedConfig, { sequences }: SftData): EpochSteps {
  const costs = sequences.map(({ tokens }) => sft!.packing ? tokens.length : training.ctx);
  return new EpochSteps({ costs, seed: run.seed, training });
}

export class Sft implements Algorithm {
  readonly updates: number | null;
  readonly steps_per_update = 1;
  readonly objective: Algorithm["objective"];
  readonly #options: SftOptions;
  readonly #rows: EpochSteps;

  constructor(options: SftOptions) {
    const { config, data, heldout } = options;
    this.#options = options;
    this.#rows = stepsOf(config, data);
    this.updates = this.#rows.count;
    this.objective = heldout && OBJECTIVE;
  }

  async runUpdate(
    { update, examples_seen, learningRate, signal, activity }: UpdateRequest,
  ): Promise<UpdateResult> {
    const { config, data, engine, adapter, clock } = this.#options;
    activity?.show({ phase: "training", update, updates: this.updates });
    const rows = this.#rows.after(examples_seen).map((row) => data.sequences[row]!);
    const normalizer = rows.reduce((sum, { trained_tokens }) => sum + trained_tokens, 0);
    const optimizer = optimizerRequest(config.training, learningRate(0));
    return await learnRows({ engine, clock }, {
      ...{ update, examples_seen, signal, rows: rows.length },
      prepare: () => ({
        adapter,
        samples: rows.map(trainingSample),
        loss: { type: "sft", normalizer },
        optimizer,
      }),
    });
  }

  /** loss = Σ −log π / Σ mask over the held-out rows; perplexity = e^loss. */
  async evaluate({ adapter, limit, signal, activity }: EvaluationRequest): Promise<EvaluationResult> {
    const { heldout, engine } = this.#options;
    assert(heldout, "an evaluation without held-out rows");
    let done = 0;
    const by_line: Record<number, Example> = {};
    const lines = new Set([...new Set(heldout.sequences.map(({ line }) => line))].slice(0, limit));
    const sequences = heldout.sequences.filter(({ line }) => lines.has(line));
    for (const batch of consecutiveBatches(sequences, ({ tokens }) => tokens.length, SCORED_TOKENS)) {
      signal.throwIfAborted();
      activity?.show({ phase: "evaluation", done, total: sequences.length });
      done += batch.length;
      const samples = batch.map(trainingSample);
      const { logprobs } = await engine.call("score", { adapter, samples }, signal);
      for (const [i, { line, trained_tokens }] of batch.entries()) {
        const row = by_line[line] ??= { sum: 0, weight: 0 };
        row.sum -= logprobs[i]!.reduce((total, logprob) => total + logprob, 0);
        row.weight += trained_tokens;
      }
    }
    const loss = ratio(Object.values(by_line));
    return {
      pass_rate: null,
      reward_mean: null,
      loss,
      perplexity: Math.exp(loss),
      rows: rowCounts(sequences, heldout.truncated),
      failed: {},
      failure: null,
      failures: {},
      scenarios: [],
      by_example: by_line,
      deterministic: true,
    };
  }
}
