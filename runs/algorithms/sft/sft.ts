/** `algorithm = "sft"`: every update is one optimiser step on rows of traces. */

import { BATCH_SEQUENCES, type ResolvedConfig, type ResolvedTraining } from "../../../config/derive.ts";
import type { Clock } from "../../../core/clock.ts";
import { assert } from "../../../core/errors.ts";
import { Rng, rngKey } from "../../../core/random.ts";
import type { EngineClient } from "../../../trainer/engine/client.ts";
import type { LossRequest, TrainingSample } from "../../../trainer/engine/protocol.ts";
import type { RowCounts } from "../../record/event.ts";
import { type Example, ratio } from "../../record/paired_comparison.ts";
import type {
  Algorithm,
  EvaluationRequest,
  EvaluationResult,
  UpdateRequest,
  UpdateResult,
} from "../algorithm.ts";
import type { RunSchedule } from "../definition.ts";
import { optimizerRequest, rate, refuseSkipped } from "../optimizer_step.ts";
import { stepMetrics } from "../step_metrics.ts";
import type { SftData, SftSequence } from "./sft_rows.ts";

/** How an evaluation of rows is judged. */
export const OBJECTIVE = { metric: "eval/loss", higher_is_better: false } as const;

export interface SftOptions {
  config: ResolvedConfig;
  data: SftData;
  heldout: SftData | null;
  engine: EngineClient;
  /** The engine's name of the adapter that learns. */
  adapter: string;
  clock: Clock;
}

/** Tokens that one request scores at most in an evaluation, so that other requests get in between. */
const SCORED_TOKENS = 1 << 14;

export class Sft implements Algorithm {
  readonly updates: number;
  readonly steps_per_update = 1;
  readonly objective: Algorithm["objective"];
  readonly #options: SftOptions;
  /** The rows of every update. */
  readonly #plan: number[][];

  constructor(options: SftOptions) {
    const { config, data, heldout } = options;
    this.#options = options;
    this.#plan = stepsOf(config, data.sequences);
    this.updates = this.#plan.length;
    this.objective = heldout && OBJECTIVE;
  }

  async runUpdate({ update, examples_seen, learningRate, activity }: UpdateRequest): Promise<UpdateResult> {
    const { config, data, engine, adapter, clock } = this.#options;
    activity?.show({ phase: "training", update, updates: this.updates });
    const rows = this.#plan[update - 1]!;
    const samples = rows.map((row, i) => trainingSample(data.sequences[row]!, i));
    const normalizer = rows.reduce((sum, row) => sum + data.sequences[row]!.trained_tokens, 0);
    const loss: LossRequest = { type: "sft", normalizer };
    const optimizer = optimizerRequest(config.training, learningRate(0));
    const started = clock.monotonic_ms();
    const result = await engine.call("train_step", { adapter, samples, loss, optimizer });
    const train_seconds = (clock.monotonic_ms() - started) / 1000;
    refuseSkipped(result.skipped, update);
    const { bytes } = await engine.call("counters", null);
    return {
      steps: [{ step: result.step, values: stepMetrics({ result, samples, loss, optimizer }) }],
      values: {
        "time/train_seconds": train_seconds,
        ...rate("tokens/trained_per_second", result.trained_tokens, train_seconds),
        "memory/device_bytes": Object.values(bytes).reduce((sum, n) => sum + n, 0),
      },
      groups: [],
      attempts: 0,
      lost: {},
      failure: null,
      reward_mean: null,
      loss: result.loss,
      tokens: result.computed_tokens,
      examples_seen: examples_seen + rows.length,
      history: {},
      deterministic: true,
    };
  }

  /** loss = Σ −log π / Σ mask over the held-out rows; perplexity = e^loss. */
  async evaluate({ adapter, limit, signal, activity }: EvaluationRequest): Promise<EvaluationResult> {
    const { heldout, engine } = this.#options;
    assert(heldout, "an evaluation without held-out rows");
    let done = 0;
    const by_line: Record<number, Example> = {};
    const sequences = heldout.sequences.slice(0, limit);
    for (const batch of batches(sequences, SCORED_TOKENS)) {
      signal.throwIfAborted();
      activity?.show({ phase: "evaluation", done, total: sequences.length });
      done += batch.length;
      const { logprobs } = await engine.call("score", { adapter, samples: batch.map(trainingSample) });
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
      scenarios: [],
      by_example: by_line,
      deterministic: true,
    };
  }
}

function rowCounts(sequences: readonly SftSequence[], truncated: readonly number[]): RowCounts {
  const lines = new Set(sequences.map(({ line }) => line));
  return { n: lines.size, truncated: truncated.filter((line) => lines.has(line)).length };
}

function trainingSample({ tokens, loss_mask }: SftSequence, i: number): TrainingSample {
  return {
    tokens,
    prefix_group: i,
    prefix_length: 0,
    loss_mask,
    trajectory: i,
    advantages: null,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
  };
}

/** The most tokens of a step, or of a request that scores held-out rows: a single row may be longer than either. */
export function mostTargets({ training, evaluation }: ResolvedConfig): number {
  const { batch_tokens = BATCH_SEQUENCES * training.ctx } = training;
  return Math.max(training.ctx, batch_tokens, evaluation ? SCORED_TOKENS : 0);
}

function stepsOf({ run, sft, training }: ResolvedConfig, sequences: readonly SftSequence[]): number[][] {
  return planSteps(sequences, { seed: run.seed, packing: sft!.packing, training });
}

/** The steps of a run, and the mean of their tokens. */
export function scheduleOf(config: ResolvedConfig, sequences: readonly SftSequence[]): RunSchedule {
  const steps = stepsOf(config, sequences);
  const tokens = steps.flat().reduce((sum, row) => sum + sequences[row]!.tokens.length, 0);
  return { updates: steps.length, tokens_per_update: Math.round(tokens / steps.length) };
}

interface PlanOptions {
  seed: number;
  packing: boolean;
  training: Pick<ResolvedTraining, "epochs" | "updates" | "batch_tokens" | "ctx">;
}

/**
 * The rows of every optimiser step: each epoch goes through all rows in an order of its own, and a step never
 * reaches over its end. With packing a step takes rows while their tokens fit in `batch_tokens` (at least one row);
 * without, as many rows as would fit if each took `ctx` tokens.
 */
export function planSteps(sequences: readonly SftSequence[], options: PlanOptions): number[][] {
  const { seed, packing, training: { epochs, updates = Infinity, ctx } } = options;
  const { batch_tokens = BATCH_SEQUENCES * ctx } = options.training;
  const steps: number[][] = [];
  const indices = sequences.map((_, i) => i);
  for (let epoch = 0; epoch < epochs && steps.length < updates; epoch++) {
    const order = new Rng(rngKey(seed, "rows", epoch)).shuffle(indices);
    const cost = (row: number) => packing ? sequences[row]!.tokens.length : ctx;
    steps.push(...fill(order, cost, batch_tokens));
  }
  return steps.slice(0, updates);
}

/** Cuts a list into runs whose costs fit, at least one item each. */
function fill<T>(items: readonly T[], cost: (item: T) => number, capacity: number): T[][] {
  const runs: T[][] = [];
  let used = Infinity;
  for (const item of items) {
    if (used + cost(item) > capacity) {
      runs.push([]);
      used = 0;
    }
    runs.at(-1)!.push(item);
    used += cost(item);
  }
  return runs;
}

function batches(sequences: readonly SftSequence[], tokens: number): SftSequence[][] {
  return fill(sequences, (sequence) => sequence.tokens.length, tokens);
}
