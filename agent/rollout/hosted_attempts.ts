/**
 * Attempts of a hosted model that calls tools over its API. They are graded by the environment alone, have no tokens, and
 * cannot be trained on as rollouts.
 */

import {
  callArguments,
  type ChatToolCall,
  type Message,
  openAiTool,
  type ParsedTurn,
  type ToolDefinition,
} from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { rngKey } from "../../core/random.ts";
import { Semaphore } from "../../core/semaphore.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { Environment, EnvironmentFactory } from "../environment/environment.ts";
import { environmentGrader } from "../grading/environment_grader.ts";
import { type EvidenceByGrader, gradeGroup, inspectAttempt } from "../grading/grade_group.ts";
import type { Grader } from "../grading/grader.ts";
import type { ToolCatalog } from "../tools/tool_host.ts";
import { boundary, BoundaryFailure } from "../trajectory/boundary.ts";
import { type Group, taskOf } from "../trajectory/group.ts";
import { isComplete, isFailed, type StopReason, type Trajectory } from "../trajectory/trajectory.ts";
import { CLOSE_TIMEOUT_MS, NO_CALL_MESSAGE } from "./episode.ts";
import type { RolloutSettings } from "./rollout_options.ts";
import { promptMessages, withObservation } from "./prompts.ts";
import { answerCalls, assistantMessage, resultMessages } from "./tool_calls.ts";

/** Failed requests in a row, over all attempts, after which the others are not made. */
export const MAX_FAILURES_IN_A_ROW = 4;

/** The most groups that are in progress or wait for an earlier one, so that memory does not grow with the scenarios. */
export const GROUPS_AHEAD = 32;

/** A turn of the hosted model. */
export interface HostedTurn {
  content: string | null;
  tool_calls: readonly ChatToolCall[];
  /** `length` when the turn was cut off. */
  finish_reason: string | null;
  /** As the model's server counted them; 0 where it does not. */
  usage: { prompt_tokens: number; completion_tokens: number };
}

/** Asks the model for its next turn. @throws {ServiceError} When there is no answer, or the signal's reason. */
export type AskPolicy = (
  question: { messages: readonly Message[]; tools: readonly ToolDefinition[]; max_tokens: number },
  signal: AbortSignal,
) => Promise<HostedTurn>;

export interface HostedOptions {
  ask: AskPolicy;
  scenarios: readonly Scenario[];
  group_size: number;
  /** Attempts that run at once. */
  concurrent_attempts: number;
  settings: Pick<
    RolloutSettings,
    | "max_turns"
    | "max_new_tokens_per_turn"
    | "max_trajectory_tokens"
    | "max_rollout_secs"
    | "end_on_no_tool_call"
    | "system_suffix"
  >;
  /** Of the environments. */
  seed: number;
  environment: EnvironmentFactory;
  clock: Clock;
  signal: AbortSignal;
}

/**
 * Attempts every scenario `group_size` times. Yields the number of ended attempts, and each graded group, in order.
 *
 * @throws {ServiceError} `cancelled`; that of the model after {@link MAX_FAILURES_IN_A_ROW} failed requests in a row.
 */
export async function* hostedGroups(options: HostedOptions): AsyncGenerator<number | Group, void> {
  const stop = new AbortController();
  const attempts = new HostedAttempts(
    { ...options, signal: AbortSignal.any([options.signal, stop.signal]) },
    stop,
  );
  /** In the order of the scenarios; the first is yielded next. */
  const groups: Promise<Group>[] = [];
  const { scenarios } = options;
  let next = 0, reported = 0;
  try {
    while (true) {
      for (; next < scenarios.length && groups.length < GROUPS_AHEAD; next++) {
        const group = attempts.group(scenarios[next]!, next);
        group.catch(() => {});
        groups.push(group);
      }
      if (groups.length === 0) return;
      const graded = await groups[0]!;
      groups.shift();
      if (attempts.ended > reported) yield reported = attempts.ended;
      yield graded;
    }
  } catch (error) {
    throw attempts.failure ?? error;
  } finally {
    stop.abort(new ServiceError("cancelled", "Cannot finish the attempts: cancelled"));
    await Promise.allSettled(groups);
  }
}

class HostedAttempts {
  ended = 0;
  /** Why no further attempts are made; null: they are. */
  failure: unknown = null;
  readonly #slots: Semaphore;
  readonly #graders: readonly Grader[];
  #failed_in_a_row = 0;

  constructor(readonly options: HostedOptions, readonly stop: AbortController) {
    this.#slots = new Semaphore(options.concurrent_attempts);
    this.#graders = [environmentGrader(options.environment) as Grader];
  }

  async group(scenario: Scenario, index: number): Promise<Group> {
    const { environment, group_size, settings, clock, signal } = this.options;
    const catalog = await environment.catalog(scenario, signal);
    const prompt_messages = promptMessages(scenario, settings.system_suffix);
    const attempts = await Promise.all(Array.from({ length: group_size }, async (_, member) => {
      const attempt = new HostedAttempt({ scenario, member, catalog, prompt_messages, all: this });
      await this.#slots.use(1, signal, () => attempt.run(this.#graders));
      this.ended++;
      return attempt;
    }));
    const group: Group = {
      ...{ update: 0, group: index, scenario: scenario.id, line: scenario.line },
      task: taskOf(scenario),
      toolset: { name: catalog.name, version: catalog.version },
      ...{ tools: catalog.tools, prompt_messages, prompt_tokens: [], graded_by: null, measures: {} },
      status: "kept",
      members: attempts.map(({ trajectory }) => trajectory),
    };
    const evidence = attempts.map((attempt) => attempt.evidence);
    const grading = { scenario, graders: this.#graders, evidence, judge_failure: "drop_group" as const };
    await gradeGroup(group, { ...grading, clock, signal });
    return group;
  }

  /** Asks the model. A failure is the attempt's, unless it is one of too many. */
  async ask(question: Parameters<AskPolicy>[0], signal: AbortSignal): Promise<HostedTurn> {
    try {
      const turn = await this.options.ask(question, signal);
      this.#failed_in_a_row = 0;
      return turn;
    } catch (error) {
      if (!signal.aborted && ++this.#failed_in_a_row >= MAX_FAILURES_IN_A_ROW) {
        this.failure ??= error;
        this.stop.abort(error);
      }
      throw error;
    }
  }
}

interface AttemptOptions {
  scenario: Scenario;
  member: number;
  catalog: ToolCatalog;
  prompt_messages: Message[];
  all: HostedAttempts;
}

class HostedAttempt {
  readonly trajectory: Trajectory;
  evidence: EvidenceByGrader | null = null;
  /** Of the last prompt and its answer, as the model's server counted them. */
  #tokens = 0;

  constructor(readonly attempt: AttemptOptions) {
    const { member, prompt_messages } = attempt;
    this.trajectory = {
      ...{ member, stop_reason: "cancelled", status: "kept", failure: null, messages: [...prompt_messages] },
      ...{ turns: [], step_rewards: [], terminal_reward: null, verification: null, total_reward: null },
      ...{ turn_advantages: [], advantage: null, assessment: null, malformed_calls: 0, fragments: [] },
      deterministic: false,
      sandbox_lost: false,
      timings: { queue_ms: 0, acquire_ms: 0, generate_ms: 0, tools_ms: 0, reward_ms: 0, rollout_ms: 0 },
    };
  }

  async run(graders: readonly Grader[]): Promise<void> {
    const { trajectory } = this, { clock, signal } = this.attempt.all.options;
    const environment = await this.#open();
    if (environment === null) return;
    const { observation = null } = environment;
    if (observation !== null) trajectory.messages = withObservation(trajectory.messages, observation);
    try {
      trajectory.stop_reason = await this.#play(environment);
      if (isComplete(trajectory.stop_reason)) await this.#inspect(environment, graders);
    } finally {
      const closing = { name: "environment", clock, timeout_ms: CLOSE_TIMEOUT_MS } as const;
      await boundary({ ...closing, signal: new AbortController().signal }, () => environment.close()).catch(
        () => {},
      );
    }
    signal.throwIfAborted();
    if (isFailed(trajectory.stop_reason)) trajectory.status = "failed";
  }

  async #open(): Promise<Environment | null> {
    const { scenario, all: { options: { environment, seed, clock, signal } } } = this.attempt;
    // All attempts at a scenario start equal.
    const own = rngKey(seed, "environment", 0, scenario.id)[0];
    let opening: Promise<Environment> | null = null;
    try {
      return await boundary({ name: "environment", clock, signal, timeout_ms: null }, (inner) => {
        opening = environment.open(scenario, { seed: own, signal: inner });
        return opening;
      });
    } catch (error) {
      // Close an environment also when it opens after the attempt was given up.
      (opening as Promise<Environment> | null)?.then((late) => late.close()).catch(() => {});
      this.#broken(error, "environment_failed");
      return null;
    }
  }

  /** Turns until the attempt ends, within `max_rollout_secs`. */
  async #play(environment: Environment): Promise<StopReason> {
    const { clock, signal, settings } = this.attempt.all.options;
    const late = new AbortController(), done = new AbortController();
    if (settings.max_rollout_secs > 0) {
      clock.sleep(settings.max_rollout_secs * 1000, done.signal).then(() => late.abort(), () => {});
    }
    const both = AbortSignal.any([signal, late.signal]);
    try {
      while (true) {
        const reason = await this.#turn(environment, both);
        if (late.signal.aborted && !signal.aborted) return "timeout";
        if (reason !== null) return reason;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (late.signal.aborted) return "timeout";
      if (!(error instanceof ServiceError)) throw error;
      this.trajectory.failure = { boundary: "infrastructure", message: error.message };
      return "environment_failed";
    } finally {
      done.abort();
    }
  }

  async #turn(environment: Environment, signal: AbortSignal): Promise<StopReason | null> {
    const { trajectory } = this, { catalog, all } = this.attempt, { settings } = all.options;
    const turn = trajectory.turns.length, left = settings.max_trajectory_tokens - this.#tokens;
    if (left <= 0) return "max_trajectory_tokens";
    const max_tokens = Math.min(settings.max_new_tokens_per_turn, left);
    const tools = catalog.tools.map(openAiTool);
    const answer = await all.ask({ messages: trajectory.messages, tools, max_tokens }, signal);
    const limit = this.#limitOf(answer);
    // No call of a turn at a limit is executed.
    const parsed = parsedTurn(limit === null ? answer : { ...answer, tool_calls: [] });
    const content = answer.content ?? "";
    const answered = await answerCalls(turn, parsed, {
      host: environment,
      tools: catalog.tools,
      clock: all.options.clock,
      call_timeout_ms: all.options.environment.call_timeout_ms,
      signal,
    });
    trajectory.sandbox_lost ||= answered.sandbox_lost;
    const { calls, broken } = answered, reward = calls.reduce((sum, call) => sum + (call.reward ?? 0), 0);
    const text = content + answer.tool_calls.map((call) => JSON.stringify(call.function)).join("");
    trajectory.turns.push({
      ...{ turn, text, calls, reward, fragment: 0, start: 0, end: 0 },
      ...{ started_ms: 0, generate_ms: 0, tools_ms: 0 },
    });
    trajectory.step_rewards.push(reward);
    trajectory.malformed_calls += calls.filter(({ malformed }) => malformed).length;
    trajectory.messages.push(assistantMessage(content, parsed, calls), ...resultMessages(calls));
    if (limit !== null) return limit;
    if (broken) {
      const { boundary } = broken.failure;
      return this.#broken(broken, boundary === "environment" ? "environment_failed" : "tool_failed");
    }
    // An attempt with a malformed call is never kept, so its other turns are not paid for.
    if (trajectory.malformed_calls > 0) return "tool_failed";
    if (answered.done_by !== null) return answered.done_by === "submit" ? "submitted" : "completed";
    if (calls.length === 0) {
      if (settings.end_on_no_tool_call) return "no_tool_call";
      trajectory.messages.push({ role: "user", content: NO_CALL_MESSAGE });
    }
    return trajectory.turns.length >= settings.max_turns ? "max_turns" : null;
  }

  /** Which limit of tokens a turn has met; null: none. Where tokens are not counted, only a cut turn shows one. */
  #limitOf({ finish_reason, usage }: HostedTurn): "max_turn_tokens" | "max_trajectory_tokens" | null {
    const { max_new_tokens_per_turn, max_trajectory_tokens } = this.attempt.all.options.settings;
    const { prompt_tokens, completion_tokens } = usage, left = max_trajectory_tokens - this.#tokens;
    this.#tokens = (prompt_tokens + completion_tokens) || this.#tokens;
    // Also where an endpoint does not heed the limit that it was sent.
    if (completion_tokens > max_new_tokens_per_turn) return "max_turn_tokens";
    if (this.#tokens > max_trajectory_tokens) return "max_trajectory_tokens";
    if (finish_reason !== "length") return null;
    return left < max_new_tokens_per_turn ? "max_trajectory_tokens" : "max_turn_tokens";
  }

  async #inspect(environment: Environment, graders: readonly Grader[]): Promise<void> {
    const { trajectory } = this, { scenario, all: { options: { clock, signal } } } = this.attempt;
    try {
      const { evidence, failure, verification = null, sandbox_lost = false } = await boundary(
        { name: "environment", clock, signal, timeout_ms: null },
        (inner) => inspectAttempt({ scenario, trajectory, environment }, graders, inner),
      );
      trajectory.verification = verification;
      trajectory.sandbox_lost ||= sandbox_lost;
      this.evidence = evidence;
      if (failure === undefined) return;
      trajectory.failure = { boundary: "environment", message: failure };
      trajectory.stop_reason = "environment_failed";
    } catch (error) {
      trajectory.stop_reason = this.#broken(error, "environment_failed");
    }
  }

  #broken(error: unknown, reason: "tool_failed" | "environment_failed"): StopReason {
    this.attempt.all.options.signal.throwIfAborted();
    if (!(error instanceof BoundaryFailure)) throw error;
    const { failure } = error, stop_reason = failure.boundary === "tool" ? "tool_failed" : reason;
    Object.assign(this.trajectory, { failure, stop_reason, status: "failed" });
    return stop_reason;
  }
}

/** The calls of a turn; those whose arguments are no object are malformed. */
function parsedTurn({ content, tool_calls }: HostedTurn): ParsedTurn {
  const parsed: ParsedTurn = { reasoning: null, content: content ?? "", calls: [], malformed: [] };
  for (const [index, { function: { name, arguments: given } }] of tool_calls.entries()) {
    const args = callArguments(given);
    if (args) parsed.calls.push({ id: "", name, arguments: args });
    else {parsed.malformed.push({
        index,
        text: JSON.stringify(given),
        reason: "the arguments are no JSON object",
      });}
  }
  return parsed;
}
