/** Hosts rollouts, tools and environments for a run, in this thread or in a worker. */

import type { EnvironmentFactory } from "../../agent/environment/environment.ts";
import type { Grader } from "../../agent/grading/grader.ts";
import type { ChatFormat } from "../../agent/rollout/chat_format.ts";
import type { RolloutSampling, RolloutSettings } from "../../agent/rollout/rollout_options.ts";
import type { RolloutTape, Tapes } from "../../agent/recording/tape.ts";
import { rolloutProgress } from "../../agent/rollout/scheduler.ts";
import { generateTurn } from "../../agent/rollout/turn_generation.ts";
import type { Group } from "../../agent/trajectory/group.ts";
import type { ResolvedAgent } from "../../config/check/derive.ts";
import type { Message, ToolFunction } from "../../core/chat.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { RngKey } from "../../core/random.ts";
import type { Scenario } from "../../data/scenario.ts";
import { answerChat, type ChatModel } from "../chat/answer_chat.ts";
import type { ChatEvent, ChatRequest } from "../chat/chat_request.ts";
import type { EngineClient } from "../../trainer/protocol/client.ts";

/** Plain data, so that it can cross to a worker. */
export interface RolloutRequest {
  update: number;
  scenarios: Scenario[];
  group_size: number;
  concurrent_rollouts: number;
  sampling: RolloutSampling;
  /** The engine's name of the policy; null for the base model. */
  adapter: string | null;
  /** Its name among the run's recordings, by `rolloutName`. Absent: it is not recorded, and not replayed. */
  tape?: string;
}

export interface GenerateRequest {
  messages: Message[];
  tools: ToolFunction[];
  max_new_tokens: number;
  temperature: number;
  top_p: number;
  rng_key: RngKey;
  adapter: string | null;
}

export interface GenerateAnswer {
  message: Message;
  token_ids: number[];
  logprobs: number[];
  stop_reason: "stop" | "length";
  usage: { prompt_tokens: number; completion_tokens: number };
}

export interface AgentHost {
  /** Returns the graded groups of all scenarios in order; yields the number of ended attempts. */
  rollout(request: RolloutRequest, signal: AbortSignal): AsyncGenerator<number, Group[], void>;
  /** Like `rollout`, for more groups than fit in memory: also yields each group, in order, when it is graded. */
  groups(request: RolloutRequest, signal: AbortSignal): AsyncGenerator<number | Group, null, void>;
  /** Generates one assistant turn without executing its calls. */
  generate(request: GenerateRequest, signal: AbortSignal): Promise<GenerateAnswer>;
  /** Answers a chat, one choice after the other. */
  chat(request: HostedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, null, void>;
}

export interface HostedChat {
  request: ChatRequest;
  adapter: string | null;
}

export interface AgentHostOptions {
  /** Null for an algorithm without rollouts. */
  settings: RolloutSettings | null;
  engine: EngineClient;
  chat: ChatFormat;
  /** The template and tokenizer with which chats are rendered. */
  model: ChatModel;
  /** The engine's longest sequence in tokens: `training.ctx`. */
  max_context: number;
  /** Null like `settings`. */
  environment: EnvironmentFactory | null;
  /** In the order in which they are called. Evaluations call only those that grade evaluations. */
  graders: readonly Grader[];
  /** Records or replays the rollouts that have a name; absent: no rollout. */
  tapes?: Tapes | null;
  clock: Clock;
}

/** The rollout settings of `[agent]`. */
export function rolloutSettings(agent: ResolvedAgent): RolloutSettings {
  const { max_turns, max_new_tokens_per_turn, max_trajectory_tokens, max_rollout_secs } = agent;
  const { end_on_no_tool_call, max_failed_turns, system_suffix = "", judge_failure } = agent;
  return {
    max_turns,
    max_new_tokens_per_turn,
    max_trajectory_tokens,
    max_rollout_secs,
    end_on_no_tool_call,
    max_failed_turns,
    system_suffix,
    judge_failure,
  };
}

export function createAgentHost(options: AgentHostOptions): AgentHost {
  return {
    async *rollout(request, signal) {
      const { tapes = null } = options, { tape: name } = request;
      const tape = tapes && name !== undefined ? await tapes.open(name) : null;
      try {
        const groups: Group[] = [];
        for await (const item of progressOf(options, { request, tape, signal })) {
          if ("group" in item) groups.push(item.group);
          else yield item.ended;
        }
        await tape?.end(null);
        return groups;
      } catch (error) {
        await tape?.end(error);
        throw error;
      }
    },
    async *groups(request, signal) {
      for await (const item of progressOf(options, { request, tape: null, signal })) {
        yield "group" in item ? item.group : item.ended;
      }
      return null;
    },
    generate: (request, signal) => generate(options, request, signal),
    async *chat({ request, adapter }, signal) {
      const { engine, model, max_context } = options;
      // A request has room for one sequence.
      const context = { engine, model, adapter, max_context, at_once: 1, recorder: null };
      yield* answerChat(request, context, signal);
      return null;
    },
  };
}

/** Starts the graders, then the rollouts, whose world goes through the tape. */
async function* progressOf(
  { settings, engine, chat, environment, graders, clock }: AgentHostOptions,
  { request, tape, signal }: { request: RolloutRequest; tape: RolloutTape | null; signal: AbortSignal },
): ReturnType<typeof rolloutProgress> {
  if (!environment || !settings) {
    throw new ServiceError("conflict", "Cannot roll out: the run has no [agent]");
  }
  const asked = request.sampling.domain === "evaluation"
    ? graders.filter(({ grades_evaluations }) => grades_evaluations)
    : graders;
  const own = { environment, graders: asked }, world = tape?.wrap(own) ?? own;
  await Promise.all(world.graders.map((grader) => grader.start?.(signal)));
  yield* rolloutProgress({
    ...request,
    ...world,
    ...{ settings, engine, chat, clock, limits: tape?.limits },
    signal: tape ? AbortSignal.any([signal, tape.departed]) : signal,
  });
}

async function generate(
  { engine, chat, max_context }: AgentHostOptions,
  request: GenerateRequest,
  signal: AbortSignal,
): Promise<GenerateAnswer> {
  const { adapter, max_new_tokens, temperature, top_p, rng_key } = request;
  const prompt = promptOf(chat, request, max_context), room = max_context - prompt.length;
  const sequence = engine.newSequence();
  await engine.call("sequence_open", { sequence, adapter, parent: null, tokens: prompt });
  try {
    const { tokens, logprobs, stop } = await generateTurn(engine, {
      sequence,
      max_tokens: Math.min(max_new_tokens, room),
      stop_tokens: chat.stop_tokens,
      sampling: { temperature, top_p, top_k: 0, rng_key, mask: null },
    }, signal);
    signal.throwIfAborted();
    const text = chat.decode(stop === "stop_token" ? tokens.slice(0, -1) : tokens);
    return {
      message: answerMessage(chat, text, request.tools),
      token_ids: tokens,
      logprobs,
      stop_reason: stop === "stop_token" ? "stop" : "length",
      usage: { prompt_tokens: prompt.length, completion_tokens: tokens.length },
    };
  } finally {
    await engine.call("sequence_close", { sequence });
  }
}

/** @throws {ServiceError} `template_failed` at the messages, which a template may refuse. */
/** @throws {ServiceError} With `details.field`. */
function promptOf(
  chat: ChatFormat,
  { messages, tools }: Pick<GenerateRequest, "messages" | "tools">,
  max_context: number,
): number[] {
  const tooLong = (tokens: string) =>
    new ServiceError(
      "config_invalid",
      `Cannot generate: the messages take ${tokens} tokens, and training.ctx is ${max_context}; send less`,
      { field: "messages" },
    );
  try {
    const tokens = chat.promptTokens(messages, tools, max_context);
    if (tokens.length >= max_context) throw tooLong(`${tokens.length}`);
    return tokens;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const { least_tokens } = error.details;
    if (least_tokens !== undefined) throw tooLong(`at least ${least_tokens}`);
    if (error.code !== "template_failed") throw error;
    const reason = error.cause instanceof Error ? error.cause.message : error.message;
    const message = `Cannot generate: the chat template refuses the messages: ${reason}`;
    throw new ServiceError("template_failed", message, { ...error.details, field: "messages" }, {
      cause: error,
    });
  }
}

/** The turn as a message; a turn with a malformed call keeps the model's text. */
function answerMessage(
  chat: ChatFormat,
  text: string,
  tools: readonly ToolFunction[],
): Message {
  const { content, calls, malformed } = chat.parseTurn(text, tools);
  if (malformed.length > 0) return { role: "assistant", content: text };
  const tool_calls = calls.map(({ id, ...called }) => ({ id, type: "function" as const, function: called }));
  return { role: "assistant", content, ...(tool_calls.length > 0 && { tool_calls }) };
}
