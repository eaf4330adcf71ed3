/** `algorithm = "agent_grpo"`: rollouts of tool-calling episodes, rewards within groups, optimiser steps. */

import { finishGroups } from "../../../agent/rollout/finish_groups.ts";
import { brokenBy, firstFailures, lostReasons } from "../../../agent/rollout/lost.ts";
import { rolloutName } from "../../../agent/recording/tape.ts";
import { rolloutMetrics } from "../../../agent/rollout/metrics.ts";
import { earnedReward, passed } from "../../../agent/rollout/reward.ts";
import {
  attachLogprobs,
  recordMeasures,
  recordTrainerLogprobs,
  samplerLogprobs,
  splitGroups,
  type TrainingBatch,
  trainingSamples,
} from "../../../agent/rollout/training_samples.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import { actionTokens } from "../../../agent/trajectory/trajectory.ts";
import type { ResolvedAgent, ResolvedConfig } from "../../../config/check/derive.ts";
import type { Clock } from "../../../core/clock.ts";
import { assert } from "../../../core/errors.ts";
import { Rng, rngKey } from "../../../core/random.ts";
import type { Scenario } from "../../../data/scenario.ts";
import type { EngineClient } from "../../../trainer/protocol/client.ts";
import type { LossRequest } from "../../../trainer/protocol/protocol.ts";
import type { HistoryEntry } from "../../directory/checkpoint.ts";
import { followRollouts } from "../../record/activity.ts";
import type { GroupSummary } from "../../record/event.ts";
import type { AgentHost } from "../../session/agent_host.ts";
import type {
  Algorithm,
  EvaluationRequest,
  EvaluationResult,
  StepRecord,
  UpdateRequest,
  UpdateResult,
} from "../algorithm.ts";
import { optimizerRequest, rate, refuseSkipped } from "../optimizer_step.ts";
import { type Metrics, samplerTrainerMetrics, stepMetrics } from "../step_metrics.ts";
import { evaluateScenarios } from "../rollouts/evaluate_scenarios.ts";
import {
  checkOversized,
  findOversized,
  type Oversized,
  withoutOversized,
  withOversized,
} from "../rollouts/oversized.ts";
import { ScenarioDraws } from "../rollouts/scenario_draws.ts";
import type { ObserveUpdate } from "../rollouts/update_observer.ts";
import { coldStartWarnings } from "./cold_start.ts";
import { UpdateBound } from "./update_bound.ts";

/** The engine's name of the reference policy, when it is not the base model. */
export const REFERENCE = "reference";

/** The objective of an evaluation of scenarios. */
export const OBJECTIVE = "eval/pass_rate";

export interface AgentGrpoOptions {
  config: ResolvedConfig;
  agent: AgentHost;
  engine: EngineClient;
  /** The engine's name of the policy. */
  adapter: string;
  scenarios: readonly Scenario[];
  heldout: readonly Scenario[] | null;
  clock: Clock;
  observe?: ObserveUpdate;
}

/** Whether an update changes the policy more than once, so that it is discarded by restoring the policy. */
export function keepsState(
  { epochs_per_update, optimizer_steps_per_update, max_update_kl }: ResolvedAgent,
): boolean {
  return epochs_per_update * optimizer_steps_per_update > 1 || max_update_kl > 0;
}

/** Log-probabilities of an update's samples by {@link sampleKey}. */
type Scores = Map<string, Float32Array>;

export class AgentGrpo implements Algorithm {
  readonly updates: number;
  readonly steps_per_update: number;
  readonly objective: Algorithm["objective"];
  readonly #options: AgentGrpoOptions;
  readonly #settings: ResolvedAgent;
  readonly #bound: UpdateBound | null;
  #draws: ScenarioDraws | null = null;

  constructor(options: AgentGrpoOptions) {
    this.#options = options;
    const settings = options.config.agent;
    assert(settings, "agent_grpo has its section");
    this.#settings = settings;
    this.updates = settings.updates;
    this.steps_per_update = settings.epochs_per_update * settings.optimizer_steps_per_update;
    const { engine, adapter } = options, { max_update_kl } = settings;
    this.#bound = max_update_kl > 0 ? new UpdateBound({ engine, adapter, max_update_kl }) : null;
    this.objective = options.heldout && OBJECTIVE;
  }

  async runUpdate(request: UpdateRequest): Promise<UpdateResult> {
    const { clock, observe } = this.#options;
    const { update, activity } = request;
    const started_ms = clock.monotonic_ms();
    const groups = await this.#rollout(this.#draw(request.examples_seen), request);
    if (update === 1) coldStartWarnings(groups).forEach((warning) => request.warn?.(warning));
    activity?.show({ phase: "training", update, updates: this.updates });
    const rolled_out_ms = clock.monotonic_ms();
    const rollout_seconds = (rolled_out_ms - started_ms) / 1000;
    let learned: Learned, values: Metrics;
    try {
      finishGroups(groups, { ...this.#settings, ctx: this.#options.config.training.ctx });
      learned = await this.#learn(groups, request);
      const train_seconds = (clock.monotonic_ms() - rolled_out_ms) / 1000;
      values = {
        ...rolloutMetrics(groups, rollout_seconds),
        ...await this.#trainMetrics(learned, train_seconds),
      };
    } catch (error) {
      // An update that is discarded is made anew.
      if (request.signal.aborted) throw error;
      // The update's own failure matters more than a failure to record it.
      await observe?.(update, groups, { metrics: rolloutMetrics(groups, rollout_seconds) }).catch(() => {});
      throw error;
    }
    const last = learned.steps.at(-1);
    await observe?.(update, groups, { metrics: { ...last?.values, ...values }, step: last?.step });
    return this.#summarize(groups, learned, values);
  }

  evaluate(request: EvaluationRequest): Promise<EvaluationResult> {
    const { agent, heldout, config } = this.#options;
    assert(heldout && config.evaluation, "an evaluation without held-out scenarios");
    const { concurrent_rollouts } = this.#settings;
    const { evaluation } = config;
    return evaluateScenarios({ concurrent_rollouts, ...request, agent, scenarios: heldout, evaluation });
  }

  #draw(examples_seen: number): Scenario[] {
    const { scenarios, config } = this.#options;
    if (this.#draws?.examples_seen !== examples_seen) {
      const { scenarios_per_update: per_update } = this.#settings;
      this.#draws = new ScenarioDraws(
        { count: scenarios.length, per_update, seed: config.run.seed },
        examples_seen,
      );
    }
    // In the order of the file, so that the shuffled order of scenarios has no effect on the update.
    return this.#draws.next().sort((a, b) => a - b).map((i) => scenarios[i]!);
  }

  #rollout(scenarios: Scenario[], { update, signal, activity }: UpdateRequest): Promise<Group[]> {
    const { agent, adapter, config } = this.#options;
    const { group_size, concurrent_rollouts, temperature } = this.#settings;
    const sampling = { domain: "train" as const, seed: config.run.seed, temperature };
    const progress = { phase: "rollouts" as const, update, updates: this.updates };
    const total = scenarios.length * group_size;
    return followRollouts(
      agent.rollout({
        ...{ update, scenarios, group_size, concurrent_rollouts, sampling, adapter },
        tape: rolloutName("update", update),
      }, signal),
      (done) => activity?.show({ ...progress, done, total }),
    );
  }

  /** Runs all optimiser steps of the update, or none: a discarded update leaves the policy as it was. */
  async #learn(groups: readonly Group[], request: UpdateRequest): Promise<Learned> {
    const { engine, adapter } = this.#options;
    if (!keepsState(this.#settings)) return await this.#learnSteps(groups, request);
    await engine.call("adapter_keep", { adapter });
    try {
      return await this.#learnSteps(groups, request);
    } catch (error) {
      if (request.signal.aborted) await engine.call("adapter_revert", { adapter });
      throw error;
    }
  }

  async #learnSteps(groups: readonly Group[], request: UpdateRequest): Promise<Learned> {
    const { epochs_per_update, optimizer_steps_per_update } = this.#settings, { signal } = request;
    const { seed } = this.#options.config.run;
    const full_batch = trainingSamples(groups, this.#settings);
    const learned = nothingLearned();
    if (full_batch.samples.length === 0) return learned;
    const old = await this.#oldLogprobs(full_batch, { groups, learned, signal });
    const reference = await this.#referenceLogprobs(full_batch, signal);
    if (old) learned.oversized = this.#oversized(full_batch, groups);
    await this.#bound?.begin();
    for (let epoch = 0; epoch < epochs_per_update; epoch++) {
      const rng = new Rng(rngKey(seed, "split", request.update, epoch));
      const parts = splitGroups(groups, optimizer_steps_per_update, rng);
      for (const [i, part] of parts.entries()) {
        const batch = withoutOversized(trainingSamples(part, this.#settings), learned.oversized);
        if (batch.samples.length === 0) continue;
        if (old) attachLogprobs(batch, "old_logprobs", scoresOf(batch, old));
        if (reference) attachLogprobs(batch, "reference_logprobs", scoresOf(batch, reference));
        const step = epoch * optimizer_steps_per_update + i;
        await this.#step({
          batch,
          groups,
          learned,
          learning_rate: request.learningRate(step),
          update: request.update,
          signal,
        });
      }
    }
    if (this.#bound) {
      const { kl, whole_kl, scale } = await this.#bound.apply(full_batch.samples, signal);
      learned.bound = { "kl/update": kl, "kl/update_whole": whole_kl, "optimizer/step_scale": scale };
    }
    return learned;
  }

  async #step({ batch, groups, learned, learning_rate, update, signal }: StepRequest): Promise<void> {
    const { engine, adapter, config } = this.#options;
    const { importance_sampling_level, clip_low, clip_high, kl_coefficient } = this.#settings;
    const loss: LossRequest = {
      type: "policy",
      importance_sampling_level,
      clip_low,
      clip_high,
      kl_coefficient,
      normalizer: batch.normalizer,
    };
    const optimizer = optimizerRequest(config.training, learning_rate);
    const { samples } = batch;
    const result = await engine.call("train_step", { adapter, samples, loss, optimizer }, signal);
    refuseSkipped(result.skipped, update);
    if (learned.steps.length === 0 && Object.keys(learned.sampler).length === 0) {
      learned.sampler = samplerAgainst(batch, groups, result.samples.map(({ logprobs }) => logprobs));
    }
    recordMeasures(batch, groups, result.samples);
    learned.steps.push({ step: result.step, values: stepMetrics({ result, samples, loss, optimizer }) });
    learned.computed_tokens += result.computed_tokens;
    learned.trained_tokens += result.trained_tokens;
  }

  /** The trajectories that cannot be trained on because their common ratio needs more than a micro-batch. */
  #oversized(full_batch: TrainingBatch, groups: readonly Group[]): Oversized {
    if (this.#settings.importance_sampling_level === "token") return new Map();
    const { max_dropped_fraction } = this.#settings;
    const oversized = findOversized(full_batch, this.#options.config.training.micro_batch_tokens);
    const attempts = groups.reduce((sum, { members }) => sum + members.length, 0);
    checkOversized(oversized, { attempts, lost: lostReasons(groups), max_dropped_fraction });
    return oversized;
  }

  /** Log-probabilities of the old policy; null when the update has one step, because every ratio is then 1. */
  async #oldLogprobs(
    batch: TrainingBatch,
    { groups, learned, signal }: Pick<StepRequest, "groups" | "learned" | "signal">,
  ): Promise<Scores | null> {
    const { engine, adapter } = this.#options;
    if (this.#settings.old_logprobs === "sampler") {
      return scoresBySample(batch, samplerLogprobs(batch, groups));
    }
    if (this.steps_per_update === 1) return null;
    const { logprobs } = await engine.call("score", { adapter, samples: batch.samples }, signal);
    learned.sampler = samplerAgainst(batch, groups, logprobs);
    recordTrainerLogprobs(batch, groups, logprobs);
    return scoresBySample(batch, logprobs);
  }

  async #referenceLogprobs(batch: TrainingBatch, signal: AbortSignal): Promise<Scores | null> {
    const { kl_coefficient, kl_reference } = this.#settings;
    if (kl_coefficient === 0) return null;
    const adapter = kl_reference === "init_adapter" ? REFERENCE : null;
    const request = { adapter, samples: batch.samples };
    const { logprobs } = await this.#options.engine.call("score", request, signal);
    return scoresBySample(batch, logprobs);
  }

  async #trainMetrics(learned: Learned, train_seconds: number): Promise<Metrics> {
    const { peak_bytes } = await this.#options.engine.call("counters", null);
    return {
      ...learned.sampler,
      ...learned.bound,
      "time/train_seconds": train_seconds,
      ...rate("tokens/trained_per_second", learned.trained_tokens, train_seconds),
      "memory/device_bytes": Object.values(peak_bytes).reduce((sum, n) => sum + n, 0),
    };
  }

  #summarize(groups: readonly Group[], learned: Learned, values: Metrics): UpdateResult {
    const members = groups.flatMap((group) => group.members);
    return {
      steps: learned.steps,
      values,
      groups: groups.map(summaryOf),
      attempts: members.length,
      lost: withOversized(lostReasons(groups), learned.oversized),
      failures: firstFailures(groups),
      reward_mean: values["reward/mean"] ?? null,
      loss: learned.steps.at(-1)?.values["loss/policy"] ?? null,
      tokens: members.reduce((sum, member) => sum + actionTokens(member), learned.computed_tokens),
      examples_seen: this.#draws!.examples_seen,
      history: Object.fromEntries(groups.map((group) => [group.scenario, historyOf(group)])),
      deterministic: members.every((member) => member.deterministic),
    };
  }
}

/** The sums over an update's steps. */
interface Learned {
  steps: StepRecord[];
  computed_tokens: number;
  trained_tokens: number;
  /** The sampler's log-probabilities compared with the trainer's, both under the old policy. */
  sampler: Metrics;
  /** The size of the update, and the share of it that was kept. */
  bound: Metrics;
  /** Trajectories that no step trains on. */
  oversized: Oversized;
}

function nothingLearned(): Learned {
  return { steps: [], computed_tokens: 0, trained_tokens: 0, sampler: {}, bound: {}, oversized: new Map() };
}

interface StepRequest {
  batch: TrainingBatch;
  groups: readonly Group[];
  learned: Learned;
  learning_rate: number;
  update: number;
  signal: AbortSignal;
}

const sampleKey = ({ group, member, fragment }: TrainingBatch["places"][number]) =>
  `${group}/${member}/${fragment}`;

function scoresBySample(batch: TrainingBatch, logprobs: readonly Float32Array[]): Scores {
  return new Map(batch.places.map((place, i) => [sampleKey(place), logprobs[i]!]));
}

function scoresOf(batch: TrainingBatch, scores: Scores): Float32Array[] {
  return batch.places.map((place) => scores.get(sampleKey(place))!);
}

function samplerAgainst(
  batch: TrainingBatch,
  groups: readonly Group[],
  trainer: readonly Float32Array[],
): Metrics {
  const flat = (rows: readonly Float32Array[]) => rows.flatMap((row) => [...row]);
  return samplerTrainerMetrics(flat(samplerLogprobs(batch, groups)), flat(trainer));
}

function summaryOf({ scenario, members, status }: Group): GroupSummary {
  return {
    scenario,
    rewards: members.map(earnedReward),
    stop_reasons: members.map((member) => member.stop_reason),
    degenerate: status === "degenerate",
    dropped: status === "too_small" || status === "ungraded",
  };
}

function historyOf({ update, members }: Group): HistoryEntry {
  const failed = members.filter((member) => brokenBy(member) !== null).length;
  return { update, attempts: members.length, passes: members.filter(passed).length, failed };
}
