/**
 * An episode runs one attempt: the model writes turns, and tools answer them, until the attempt ends. Its trajectory has
 * the tokens that were sampled, not those of their text encoded again.
 */

import type { Message, ParsedTurn } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { Environment } from "../environment/environment.ts";
import { type EvidenceByGrader, inspectAttempt } from "../grading/grade_group.ts";
import type { ToolCatalog } from "../tools/tool_host.ts";
import type { LimitPlace } from "../recording/tape.ts";
import { boundary, BoundaryFailure } from "../trajectory/boundary.ts";
import { FragmentRecorder } from "../trajectory/fragments.ts";
import { isComplete, isFailed, type StopReason, type Trajectory } from "../trajectory/trajectory.ts";
import { environmentSeed, turnRngKey } from "./random_keys.ts";
import type { RolloutOptions } from "./rollout_options.ts";
import { answerCalls, type AnsweredCalls, assistantMessage, resultMessages } from "./tool_calls.ts";
import { commonPrefix, withObservation } from "./prompts.ts";
import { TimeLimit } from "./time_limit.ts";
import { type GeneratedTurn, generateTurn } from "./turn_generation.ts";

/** The shared prompt of a group's members. */
export interface EpisodePrompt {
  messages: Message[];
  tokens: number[];
  /** The sequence with these tokens; members share its cache. Null when the prompt leaves no room for a turn. */
  sequence: number | null;
  catalog: ToolCatalog;
}

export interface EpisodeOptions {
  scenario: Scenario;
  /** The position of its group in the rollout. */
  group: number;
  member: number;
  prompt: EpisodePrompt;
  queue_ms: number;
  rollout: RolloutOptions;
}

/** An attempt that has ended and is not yet graded. */
export interface EndedEpisode {
  trajectory: Trajectory;
  /** Its own prompt: the shared one, or that with the environment's observation. */
  prompt: Pick<EpisodePrompt, "messages" | "tokens">;
  /** Null: not inspected by a grader. */
  evidence: EvidenceByGrader | null;
}

/** The time for an environment to close before it is abandoned. */
export const CLOSE_TIMEOUT_MS = 30_000;

/** The message to the model after a turn without a tool call, when such a turn does not end the trajectory. */
export const NO_CALL_MESSAGE = "No tool was called. Call a tool to go on.";

/**
 * Runs an episode to its end. Every ending is data in the trajectory. Thrown are only errors that end the run: those of
 * the engine, a failing template, a programmer's mistake. Sequence and environment are always closed.
 */
export async function runEpisode(options: EpisodeOptions): Promise<EndedEpisode> {
  const episode = new Episode(options);
  return await episode.run();
}

class Episode {
  readonly #trajectory: Trajectory;
  readonly #recorder: FragmentRecorder;
  readonly #sequence: number;
  /** Aborts with the run's signal or at the wall-clock limit. */
  readonly #abort = new AbortController();
  readonly #limit: TimeLimit;
  #started_ms = 0;
  #failed_turns = 0;
  #evidence: EvidenceByGrader | null = null;
  #prompt: EndedEpisode["prompt"];

  constructor(readonly options: EpisodeOptions) {
    const { prompt, member, queue_ms, rollout } = options;
    this.#limit = new TimeLimit(rollout, options);
    this.#recorder = new FragmentRecorder(prompt.tokens);
    this.#prompt = prompt;
    this.#sequence = rollout.engine.newSequence();
    this.#trajectory = {
      member,
      stop_reason: "cancelled",
      status: "kept",
      failure: null,
      messages: [...prompt.messages],
      turns: [],
      step_rewards: [],
      terminal_reward: null,
      verification: null,
      total_reward: null,
      turn_advantages: [],
      advantage: null,
      assessment: null,
      malformed_calls: 0,
      fragments: this.#recorder.fragments,
      deterministic: true,
      sandbox_lost: false,
      timings: { queue_ms, acquire_ms: 0, generate_ms: 0, tools_ms: 0, reward_ms: 0, rollout_ms: 0 },
    };
  }

  async run(): Promise<EndedEpisode> {
    const trajectory = this.#trajectory;
    trajectory.stop_reason = await this.#stopReason();
    const { stop_reason } = trajectory;
    if (isFailed(stop_reason) || stop_reason === "cancelled") trajectory.status = "failed";
    return { trajectory, prompt: this.#prompt, evidence: this.#evidence };
  }

  async #stopReason(): Promise<StopReason> {
    const { clock } = this.options.rollout;
    const parent = this.options.prompt.sequence;
    if (parent === null) return this.#promptTooLong(`${this.options.prompt.tokens.length}`);
    const environment = await this.#open();
    if (typeof environment === "string") return environment;
    try {
      const too_long = this.#observe(environment);
      if (too_long) return too_long;
      const reason = await this.#rollout(environment, parent);
      return isComplete(reason) ? await this.#inspect(environment) ?? reason : reason;
    } finally {
      const { signal } = new AbortController();
      const closing = { name: "environment", clock, signal, timeout_ms: CLOSE_TIMEOUT_MS } as const;
      await boundary(closing, () => environment.close()).catch(() => {});
    }
  }

  /** @param tokens The length of the prompt, or what is known of it. */
  #promptTooLong(tokens: string): "max_trajectory_tokens" {
    const { scenario, rollout } = this.options, { max_trajectory_tokens } = rollout.settings;
    const message =
      `the prompt of scenario ${JSON.stringify(scenario.id)} has ${tokens} tokens, which leaves no ` +
      `room for a turn within ${max_trajectory_tokens} (agent.max_trajectory_tokens, at most training.ctx)`;
    this.#trajectory.failure = { boundary: "prompt", message };
    return "max_trajectory_tokens";
  }

  async #open(): Promise<Environment | StopReason> {
    const { scenario, group, member, rollout } = this.options;
    const { sampling, update, clock, signal } = rollout;
    const started = clock.monotonic_ms(), attempt = { group, member };
    const seed = environmentSeed(sampling, { update, scenario: scenario.id });
    let opening: Promise<Environment> | null = null;
    try {
      return await boundary({ name: "environment", clock, signal, timeout_ms: null }, (inner) => {
        opening = rollout.environment.open(scenario, { seed, attempt, signal: inner });
        return opening;
      });
    } catch (error) {
      // Close an environment also when it opens after the attempt was given up.
      (opening as Promise<Environment> | null)?.then((late) => late.close()).catch(() => {});
      return this.#broken(error, "environment_failed");
    } finally {
      this.#trajectory.timings.acquire_ms = clock.monotonic_ms() - started;
    }
  }

  /** Shows what the environment starts with after the task; returns a stop reason when that leaves no room for a turn. */
  #observe({ observation = null }: Environment): "max_trajectory_tokens" | null {
    if (observation === null) return null;
    const { prompt, rollout: { chat, settings: { max_trajectory_tokens } } } = this.options;
    const messages = withObservation(prompt.messages, observation);
    let tokens: number[];
    try {
      tokens = chat.promptTokens(messages, prompt.catalog.tools, max_trajectory_tokens);
    } catch (error) {
      const least = error instanceof ServiceError ? error.details.least_tokens : undefined;
      if (least === undefined) throw error;
      return this.#promptTooLong(`at least ${least}`);
    }
    this.#trajectory.messages = [...messages];
    this.#recorder.replacePrompt(tokens);
    this.#prompt = { messages, tokens };
    return tokens.length >= max_trajectory_tokens ? this.#promptTooLong(`${tokens.length}`) : null;
  }

  /** From the first token of the prompt to the end of the last turn, under `max_rollout_secs`. */
  async #rollout(environment: Environment, parent: number): Promise<StopReason> {
    const { clock, engine, signal, adapter } = this.options.rollout;
    const stop = new AbortController();
    const cancel = () => this.#abort.abort();
    signal.addEventListener("abort", cancel, { once: true, signal: stop.signal });
    if (signal.aborted) cancel();
    this.#started_ms = clock.monotonic_ms();
    this.#limit.start(cancel, stop.signal);
    let opened = false;
    try {
      const own = this.#prompt.tokens, shared = this.options.prompt.tokens;
      const kept = own === shared ? own.length : commonPrefix(shared, own);
      const start = kept > 0 ? { parent, tokens: [] } : { parent: null, tokens: own };
      await engine.call("sequence_open", { sequence: this.#sequence, adapter, ...start });
      opened = true;
      if (kept > 0) await this.#replaceAfter(kept, { from: shared, to: own });
      while (true) {
        const stop_reason = await this.#turn(environment);
        if (stop_reason !== null) return stop_reason;
      }
    } finally {
      this.#trajectory.timings.rollout_ms = clock.monotonic_ms() - this.#started_ms;
      stop.abort();
      // If the engine refuses this it is gone, and another error reports that.
      if (opened) await engine.call("sequence_close", { sequence: this.#sequence }).catch(() => {});
    }
  }

  /** Runs one turn with its checks in their documented order; null when the trajectory continues. */
  async #turn(environment: Environment): Promise<StopReason | null> {
    const { settings } = this.options.rollout;
    const trajectory = this.#trajectory;
    const over = this.#timeIsUp("turn");
    if (over) return over;
    if (this.#recorder.length >= settings.max_trajectory_tokens) return "max_trajectory_tokens";
    const generated = await this.#generate();
    const text = trajectory.turns.at(-1)!.text;
    const late = this.#timeIsUp("generated");
    if (late || generated.stop !== "stop_token") {
      // An unfinished or late turn stays as it is: no call in it is executed.
      trajectory.messages.push({ role: "assistant", content: text });
      if (late) return late;
      const turn_is_full = generated.tokens.length >= settings.max_new_tokens_per_turn;
      return turn_is_full ? "max_turn_tokens" : "max_trajectory_tokens";
    }
    const parsed = this.options.rollout.chat.parseTurn(text, this.options.prompt.catalog.tools);
    const answered = await this.#answer(environment, parsed);
    const message = assistantMessage(text, parsed, answered.calls);
    trajectory.messages.push(message, ...resultMessages(answered.calls));
    if (answered.broken) {
      const { boundary } = answered.broken.failure;
      return this.#broken(answered.broken, boundary === "environment" ? "environment_failed" : "tool_failed");
    }
    if (answered.done_by !== null) return answered.done_by === "submit" ? "submitted" : "completed";
    if (answered.calls.length === 0) {
      if (settings.end_on_no_tool_call) return "no_tool_call";
      trajectory.messages.push({ role: "user", content: NO_CALL_MESSAGE });
    }
    if (this.#tooManyFailedTurns(answered)) return "tool_failed";
    if (trajectory.turns.length >= settings.max_turns) return "max_turns";
    return await this.#continue(generated.tokens.at(-1)!, trajectory.messages.lastIndexOf(message));
  }

  #timeIsUp(place: LimitPlace["place"]): "cancelled" | "timeout" | null {
    if (this.options.rollout.signal.aborted) return "cancelled";
    return this.#limit.isOver(place, this.#trajectory.turns.length) ? this.#timeout(place) : null;
  }

  async #generate(): Promise<GeneratedTurn> {
    const { scenario, member, rollout } = this.options;
    const { clock, settings, sampling, chat, update } = rollout;
    const trajectory = this.#trajectory, turn = trajectory.turns.length;
    const start = this.#recorder.length, started = clock.monotonic_ms();
    const cut = this.#limit.tokensOf(turn);
    const generated = await generateTurn(rollout.engine, {
      sequence: this.#sequence,
      max_tokens: Math.min(settings.max_new_tokens_per_turn, settings.max_trajectory_tokens - start, cut),
      stop_tokens: chat.stop_tokens,
      sampling: {
        temperature: sampling.temperature,
        top_p: 1,
        top_k: 0,
        rng_key: turnRngKey(sampling, { update, scenario: scenario.id, member, turn }),
        mask: null,
      },
    }, cut === 0 ? AbortSignal.abort() : this.#abort.signal);
    const generate_ms = clock.monotonic_ms() - started;
    this.#recorder.addSampled(turn, generated.tokens, generated.logprobs);
    trajectory.timings.generate_ms += generate_ms;
    trajectory.step_rewards.push(0);
    trajectory.turns.push({
      turn,
      text: chat.decode(generated.stop === "stop_token" ? generated.tokens.slice(0, -1) : generated.tokens),
      calls: [],
      reward: 0,
      fragment: trajectory.fragments.length - 1,
      start,
      end: start + generated.tokens.length,
      started_ms: started - this.#started_ms,
      generate_ms,
      tools_ms: 0,
    });
    return generated;
  }

  async #answer(environment: Environment, parsed: ParsedTurn): Promise<AnsweredCalls> {
    const { prompt, rollout } = this.options;
    const trajectory = this.#trajectory, turn = trajectory.turns.at(-1)!;
    const started = rollout.clock.monotonic_ms();
    const answered = await answerCalls(turn.turn, parsed, {
      host: environment,
      tools: prompt.catalog.tools,
      clock: rollout.clock,
      call_timeout_ms: rollout.environment.call_timeout_ms,
      signal: this.#abort.signal,
    });
    turn.calls = answered.calls;
    trajectory.sandbox_lost ||= answered.sandbox_lost;
    turn.reward = answered.calls.reduce((sum, call) => sum + (call.reward ?? 0), 0);
    turn.tools_ms = rollout.clock.monotonic_ms() - started;
    trajectory.timings.tools_ms += turn.tools_ms;
    trajectory.step_rewards[turn.turn] = turn.reward;
    trajectory.malformed_calls += answered.calls.filter((call) => call.malformed).length;
    return answered;
  }

  #tooManyFailedTurns({ calls }: AnsweredCalls): boolean {
    const { max_failed_turns } = this.options.rollout.settings;
    this.#failed_turns = calls.some((call) => call.malformed) ? this.#failed_turns + 1 : 0;
    if (max_failed_turns === 0 || this.#failed_turns < max_failed_turns) return false;
    const message = `${this.#failed_turns} turns in a row with a malformed call`;
    this.#trajectory.failure = { boundary: "tool", message };
    return true;
  }

  /** Appends the answer to the model's turn: only the new tokens where the template allows it. */
  async #continue(ended_by: number, turn: number): Promise<StopReason | null> {
    const { prompt, rollout } = this.options;
    const { messages } = this.#trajectory;
    const next = rollout.chat.continuation({ messages, turn, tools: prompt.catalog.tools, ended_by });
    const limit = rollout.settings.max_trajectory_tokens;
    const length = next.type === "extend"
      ? this.#recorder.length + next.forced.length + next.tokens.length
      : next.tokens.length;
    if (length >= limit) return this.#timeIsUp("continued") ?? "max_trajectory_tokens";
    const { engine } = rollout, sequence = this.#sequence;
    if (next.type === "extend") {
      await engine.call("sequence_extend", { sequence, tokens: [...next.forced, ...next.tokens] });
      this.#recorder.add("forced", next.forced);
      this.#recorder.add(next.origin, next.tokens);
      return null;
    }
    const kept = commonPrefix(this.#recorder.current.tokens, next.tokens);
    if (kept === this.#recorder.length && kept < next.tokens.length) {
      const tokens = next.tokens.slice(kept);
      await engine.call("sequence_extend", { sequence, tokens });
      this.#recorder.add("tool", tokens);
      return null;
    }
    if (kept === 0) {
      await engine.call("sequence_close", { sequence });
      const { adapter } = rollout;
      await engine.call("sequence_open", { sequence, adapter, parent: null, tokens: next.tokens });
    } else {
      await this.#replaceAfter(kept, { from: this.#recorder.current.tokens, to: next.tokens });
    }
    this.#recorder.restart(next.tokens);
    return null;
  }

  /** Changes the sequence's tokens after the first `kept`, which are above 0 and the same. */
  async #replaceAfter(kept: number, { from, to }: Record<"from" | "to", readonly number[]>): Promise<void> {
    const { engine } = this.options.rollout, sequence = this.#sequence;
    if (kept < from.length) await engine.call("sequence_truncate", { sequence, length: kept });
    if (kept < to.length) await engine.call("sequence_extend", { sequence, tokens: to.slice(kept) });
  }

  /** Lets graders inspect the open environment; returns a stop reason when the attempt cannot be graded. */
  async #inspect(environment: Environment): Promise<StopReason | null> {
    const { scenario, rollout: { clock, signal, graders } } = this.options;
    const trajectory = this.#trajectory, started = clock.monotonic_ms();
    try {
      const { evidence, failure, timed_out, verification = null, sandbox_lost = false } = await boundary(
        { name: "environment", clock, signal, timeout_ms: null },
        (inner) => inspectAttempt({ scenario, trajectory, environment }, graders, inner),
      );
      if (timed_out) trajectory.deterministic = false;
      trajectory.verification = verification;
      trajectory.sandbox_lost ||= sandbox_lost;
      if (failure !== undefined) {
        trajectory.failure = { boundary: "environment", message: failure };
        return "environment_failed";
      }
      this.#evidence = evidence;
      return null;
    } catch (error) {
      return this.#broken(error, "environment_failed");
    } finally {
      trajectory.timings.reward_ms = clock.monotonic_ms() - started;
    }
  }

  /** Records a boundary failure, unless the run or the wall-clock limit caused it. */
  #broken(error: unknown, reason: "tool_failed" | "environment_failed"): StopReason {
    if (!(error instanceof BoundaryFailure)) throw error;
    if (error.kind === "cancelled") {
      return this.options.rollout.signal.aborted ? "cancelled" : this.#timeout("call");
    }
    if (error.is_transient) this.#trajectory.deterministic = false;
    this.#trajectory.failure = error.failure;
    return error.failure.boundary === "tool" ? "tool_failed" : reason;
  }

  #timeout(place: LimitPlace["place"]): "timeout" {
    this.#trajectory.deterministic = false;
    this.#limit.note(place, this.#trajectory);
    return "timeout";
  }
}
