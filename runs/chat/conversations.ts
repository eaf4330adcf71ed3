/**
 * Records conversations in an observe directory. A request whose messages continue a recorded answer belongs to the same
 * conversation: its prompt is the recorded tokens, as they were sampled, and the new messages after them. So a
 * conversation of many requests is one trajectory, as a rollout would have recorded it.
 */

import { createHash } from "node:crypto";
import { ObserveWriter, readIndex } from "../../agent/results/observe.ts";
import { FragmentRecorder } from "../../agent/trajectory/fragments.ts";
import type { Group } from "../../agent/trajectory/group.ts";
import type { CallRecord, Trajectory, TurnRecord } from "../../agent/trajectory/trajectory.ts";
import { type Message, normalizeMessages, type ToolDefinition } from "../../core/chat.ts";
import { systemClock } from "../../core/clock.ts";
import type { ChatModel, ChatRecorder, SampledChoice } from "./answer_chat.ts";
import type { ChatRequest } from "./chat_request.ts";

/** Answers that a later request can continue; the oldest are forgotten. */
const KEPT_ANSWERS = 64;

/** Tokens in the order in which the model saw them. */
type Step =
  | { type: "prompt" | "restart"; tokens: readonly number[] }
  | { type: "forced" | "tool"; tokens: readonly number[] }
  | { type: "sampled"; tokens: readonly number[]; logprobs: readonly number[] };

interface Turn extends Pick<TurnRecord, "text" | "started_ms" | "generate_ms"> {
  calls: SampledChoice["calls"];
}

/** A conversation up to an answer, or up to a prompt that waits for one. Never changed. */
interface Conversation {
  steps: readonly Step[];
  turns: readonly Turn[];
  /** The tokens of the current fragment. */
  tokens: readonly number[];
  started_ms: number;
  /** The place of the stored trajectory. The first continuation takes it; further ones are trajectories of their own. */
  place: { number: number | null; is_taken: boolean };
  /** The last sampled token. */
  ended_by: number | null;
}

export interface ConversationsOptions {
  /** The observe directory. */
  directory: string;
  /** The name that its readers show. */
  name: string;
}

/** The conversations of one observe directory. */
export class Conversations {
  readonly #writers = new Map<ChatModel, Promise<ObserveWriter>>();
  readonly #answers = new Map<string, Conversation>();
  #working: Promise<unknown> = Promise.resolve();

  private constructor(readonly options: ConversationsOptions, private last_number: number) {}

  /** Opens a directory. New conversations are numbered after those that it has. */
  static async open(options: ConversationsOptions): Promise<Conversations> {
    const { updates } = await readIndex(options.directory);
    return new Conversations(options, updates.at(-1)?.update ?? 0);
  }

  /** @param version Differs between weights: tokens of others do not continue a conversation. */
  recorder(model: ChatModel, version: string): ChatRecorder {
    const prompts = new WeakMap<ChatRequest, Conversation>();
    return {
      promptTokens: (request, max_tokens) => {
        const conversation = this.#prompt(request, { model, version, max_tokens });
        prompts.set(request, conversation);
        return [...conversation.tokens];
      },
      record: (request, choice) => this.#record({ request, choice, model, version }, prompts.get(request)!),
    };
  }

  #prompt(
    request: ChatRequest,
    { model, version, max_tokens }: { model: ChatModel; version: string; max_tokens: number },
  ): Conversation {
    const { messages, tools } = request, { renderer, probe, variables } = model;
    const turn = messages.findLastIndex(({ role }) => role === "assistant"), added = messages.slice(turn + 1);
    const known = turn >= 0 && added.length > 0
      ? this.#answers.get(keyOf(version, tools, messages.slice(0, turn + 1)))
      : undefined;
    const options = { tools, variables };
    const allTokens = () => renderer.renderPrompt(messages, options, max_tokens).ids;
    if (!known) {
      const tokens = allTokens();
      const place = { number: null, is_taken: false }, started_ms = performance.now();
      return { steps: [{ type: "prompt", tokens }], turns: [], tokens, place, started_ms, ended_by: null };
    }
    const are_results = added.every(({ role }) => role === "tool");
    if (!(are_results ? probe.tool_loop_stable : probe.prefix_stable)) {
      const tokens = allTokens();
      return { ...known, steps: [...known.steps, { type: "restart", tokens }], tokens };
    }
    const ended = renderer.turnEnd(options)?.id === known.ended_by;
    const { ids, origins } = renderer.renderSuffix({ messages: added, ended }, options);
    const forced = origins.filter((origin) => origin === "forced").length;
    const steps: Step[] = [
      { type: "forced", tokens: ids.slice(0, forced) },
      { type: are_results ? "tool" : "prompt", tokens: ids.slice(forced) },
    ];
    return { ...known, steps: [...known.steps, ...steps], tokens: [...known.tokens, ...ids] };
  }

  /** Stores a conversation with its new answer; it is on disk when this returns. */
  async #record(
    { request, choice, model, version }: {
      request: ChatRequest;
      choice: SampledChoice;
      model: ChatModel;
      version: string;
    },
    prompt: Conversation,
  ): Promise<void> {
    const { tokens, logprobs, generate_ms, end } = choice, { tokenizer } = model.renderer;
    const said = end === "stop_token" ? tokens.slice(0, -1) : tokens;
    const turn: Turn = {
      text: tokenizer.decode(said, { special: true }),
      started_ms: performance.now() - generate_ms - prompt.started_ms,
      generate_ms,
      calls: choice.calls,
    };
    const number = prompt.place.number === null || prompt.place.is_taken
      ? ++this.last_number
      : prompt.place.number;
    prompt.place.is_taken = true;
    const conversation: Conversation = {
      ...prompt,
      steps: [...prompt.steps, { type: "sampled", tokens, logprobs }],
      turns: [...prompt.turns, turn],
      tokens: [...prompt.tokens, ...tokens],
      place: { number, is_taken: false },
      ended_by: tokens.at(-1) ?? null,
    };
    const messages = [...request.messages, answerMessage(choice)];
    // After a stop text the client has another text than the tokens.
    if (end !== "text") this.#keep(keyOf(version, request.tools, messages), conversation);
    const group = groupOf(conversation, { number, messages, tools: request.tools, end });
    await this.#write(model, number, group);
  }

  #keep(key: string, conversation: Conversation): void {
    this.#answers.delete(key);
    this.#answers.set(key, conversation);
    if (this.#answers.size > KEPT_ANSWERS) this.#answers.delete(this.#answers.keys().next().value!);
  }

  #write(model: ChatModel, number: number, group: Group): Promise<void> {
    const { directory, name } = this.options;
    let writer = this.#writers.get(model);
    if (!writer) {
      const tokenText = (id: number) => model.renderer.tokenizer.textOf(id);
      writer = ObserveWriter.open({
        ...{ directory, run_name: name, every: 1, updates: null, max_text_chars: 0, tokenText },
        clock: systemClock,
      });
      this.#writers.set(model, writer);
      writer.catch(() => this.#writers.delete(model));
    }
    const written = this.#working.then(async () => (await writer).write(number, [group], { metrics: {} }));
    this.#working = written.catch(() => {});
    return written;
  }
}

/** The answer as the client sends it back. */
function answerMessage({ content, reasoning, calls }: SampledChoice): Message {
  const [message] = normalizeMessages([{
    role: "assistant",
    content,
    ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
    tool_calls: calls.map(({ id, name, arguments: args }) => ({ id, function: { name, arguments: args } })),
  }]);
  return message!;
}

/** Identifies messages. Clients need not send the thinking back. */
function keyOf(version: string, tools: readonly ToolDefinition[], messages: readonly Message[]): string {
  const said = messages.map((message) => ({ ...message, reasoning_content: undefined }));
  return createHash("sha256").update(JSON.stringify([version, tools, said])).digest("hex");
}

function fragmentsOf({ steps }: Conversation): FragmentRecorder {
  const recorder = new FragmentRecorder([]);
  let turn = 0;
  for (const step of steps) {
    if (step.type === "sampled") recorder.addSampled(turn++, step.tokens, step.logprobs);
    else if (step.type === "restart") recorder.restart(step.tokens);
    else recorder.add(step.type, step.tokens);
  }
  return recorder;
}

interface GroupFacts {
  number: number;
  messages: Message[];
  tools: readonly ToolDefinition[];
  end: SampledChoice["end"];
}

/** A conversation as a group of one attempt that nobody has graded. */
function groupOf(conversation: Conversation, { number, messages, tools, end }: GroupFacts): Group {
  const first = messages.findIndex(({ role }) => role === "assistant");
  const { steps: [prompt] } = conversation;
  return {
    update: number,
    group: 0,
    scenario: `conversation_${number}`,
    line: number,
    task: null,
    toolset: null,
    tools: tools.map(({ function: { name, description = "", parameters = {} } }) => (
      { name, description, parameters }
    )),
    prompt_messages: messages.slice(0, first),
    prompt_tokens: [...prompt!.tokens],
    graded_by: null,
    measures: {},
    status: "ungraded",
    members: [trajectoryOf(conversation, messages, end)],
  };
}

function trajectoryOf(
  conversation: Conversation,
  messages: Message[],
  end: SampledChoice["end"],
): Trajectory {
  const { fragments } = fragmentsOf(conversation);
  const turns = turnRecords(conversation, { messages, fragments });
  const has_calls = turns.at(-1)!.calls.length > 0;
  const generate_ms = turns.reduce((sum, turn) => sum + turn.generate_ms, 0), last = turns.at(-1)!;
  return {
    member: 0,
    stop_reason: end === "max_tokens" ? "max_turn_tokens" : has_calls ? "cancelled" : "no_tool_call",
    status: "group_dropped",
    failure: null,
    messages,
    turns,
    step_rewards: turns.map(() => 0),
    terminal_reward: null,
    verification: null,
    total_reward: null,
    turn_advantages: [],
    advantage: null,
    assessment: null,
    malformed_calls: 0,
    fragments,
    deterministic: true,
    sandbox_lost: false,
    timings: {
      ...{ queue_ms: 0, acquire_ms: 0, tools_ms: 0, reward_ms: 0, generate_ms },
      rollout_ms: last.started_ms + last.generate_ms,
    },
  };
}

/** The turns with the places of their tokens, and the results that later messages gave to their calls. */
function turnRecords(
  conversation: Conversation,
  { messages, fragments }: Pick<Trajectory, "messages" | "fragments">,
): TurnRecord[] {
  const results = new Map(
    messages.flatMap(({ role, tool_call_id, content }) =>
      role === "tool" && tool_call_id !== undefined ? [[tool_call_id, content]] : []
    ),
  );
  const places = fragments.flatMap(({ spans }, fragment) =>
    spans.filter(({ origin }) => origin === "model").map(({ start, end }) => ({ fragment, start, end }))
  );
  return conversation.turns.map(({ text, calls, started_ms, generate_ms }, turn) => ({
    turn,
    text,
    calls: calls.map((call, index) => callRecord(call, index, results.get(call.id) ?? null)),
    reward: 0,
    ...places[turn]!,
    ...{ started_ms, generate_ms, tools_ms: 0 },
  }));
}

function callRecord(call: SampledChoice["calls"][number], index: number, result: string | null): CallRecord {
  const { id, name, arguments: args } = call;
  return {
    ...{ index, id, name, arguments: JSON.parse(args), text: null, malformed: false, result },
    ...{ reward: null, done: false, failure: null, exec_ms: 0 },
  };
}
