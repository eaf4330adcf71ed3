/** A judge that scores all attempts of a group by one request, and repairs an answer at most once. */

import { createHash } from "node:crypto";
import type { ChatMessage, JsonSchema } from "../../core/chat.ts";
import type { Redact } from "../../core/chat_api/redact.ts";
import { isJsonObject } from "../../core/json.ts";
import { fittedText } from "./fitted_text.ts";
import type { JudgeCache } from "./judge_cache.ts";
import { type JudgedGroup, seenGroup } from "./judged_group.ts";
import { checkScores, type JudgedScore, type ReadAnswer, readAnswer } from "./ruler_answer.ts";
import { DEFAULT_RUBRIC, type RequestForm, type RulerRequest, rulerRequest } from "./ruler_request.ts";

/** The most characters of an unusable answer that the request for another one repeats. */
export const MAX_REPEATED_CHARS = 4000;

/** A request to a model. */
export interface JudgeQuestion {
  messages: readonly ChatMessage[];
  /** Of the JSON that the text should be. */
  schema: JsonSchema;
}

/** A model's answer. */
export interface JudgeReply {
  text: string;
  /** Whether the model was cut off before its end. */
  is_cut_off: boolean;
  /** Of the request and the answer together. */
  tokens: number;
}

/** A model that judges. Its answers are untrusted. */
export interface JudgeModel {
  /** Names the model in keys of a cache, once it is started. */
  readonly identity: string;
  /** Whether the same question always has the same answer. */
  readonly deterministic: boolean;
  /** How it is asked, once it is started. */
  readonly form: RequestForm;
  /** Removes a key from what the model says. */
  readonly redact: Redact;
  /** Prepares what questions need, such as a key. @throws {ServiceError} */
  start(signal: AbortSignal): Promise<void>;
  /** @throws {ServiceError} When there is no answer, or the signal's reason. */
  ask(question: JudgeQuestion, signal: AbortSignal): Promise<JudgeReply>;
}

/** Options of a {@link RulerJudge}. */
export interface RulerJudgeOptions {
  model: JudgeModel;
  /** For groups without their own; absent: {@link DEFAULT_RUBRIC}. */
  rubric?: string | undefined;
  /** Null: every question is sent. */
  cache: JudgeCache | null;
}

/** A judged group. */
export interface Judgement {
  /** For each attempt; equal ones have the same. */
  scores: JudgedScore[];
  /** The position in which each attempt was shown, from 0. */
  positions: number[];
  /** Of the answers that gave these scores, also where they were kept. */
  tokens: number;
}

/** Scores groups of attempts. */
export class RulerJudge {
  readonly #options: RulerJudgeOptions;

  constructor(options: RulerJudgeOptions) {
    this.#options = options;
  }

  /** Whether the same group always has the same scores. */
  get deterministic(): boolean {
    return this.#options.model.deterministic;
  }

  /** Prepares the model and the cache. @throws {ServiceError} */
  async start(signal: AbortSignal): Promise<void> {
    await this.#options.model.start(signal);
    await this.#options.cache?.start();
  }

  /**
   * Scores a group. An answer in which an attempt has no score, two, or one outside of [0, 1] is sent back once.
   *
   * @param orderOf The order in which so many distinct attempts are shown, as their places.
   * @throws When the second answer is unusable too, or the model does not answer.
   */
  async judge(
    { rubric, tools, attempts }: JudgedGroup,
    orderOf: (distinct: number) => readonly number[],
    signal: AbortSignal,
  ): Promise<Judgement> {
    const { form } = this.#options.model, seen = seenGroup(attempts), order = orderOf(seen.distinct.length);
    const own_rubric = rubric ?? this.#options.rubric ?? DEFAULT_RUBRIC;
    const request = rulerRequest({ rubric: own_rubric, tools, seen, order, form });
    const { scores, tokens } = await this.#answer(request, signal);
    const positions = seen.place.map((place) => order.indexOf(place));
    return { scores: positions.map((position) => scores.get(request.ids[position]!)!), positions, tokens };
  }

  async #answer(request: RulerRequest, signal: AbortSignal): Promise<KeptAnswer> {
    const { model, cache } = this.#options;
    if (!cache) return await this.#ask(request, signal);
    const key = judgementKey(model.identity, request);
    const kept = keptAnswer(await cache.get(key), request.ids);
    if (kept) return kept;
    const answer = await this.#ask(request, signal);
    await cache.put(key, writtenAnswer(answer));
    return answer;
  }

  async #ask({ messages, ids, schema }: RulerRequest, signal: AbortSignal): Promise<KeptAnswer> {
    const { model } = this.#options;
    const first = await model.ask({ messages, schema }, signal), read = this.#read(first, ids);
    if ("scores" in read) return { scores: read.scores, tokens: first.tokens };
    const repair = repairMessages(first, read.problems, ids);
    const second = await model.ask({ messages: [...messages, ...repair], schema }, signal);
    const repaired = this.#read(second, ids);
    if ("scores" in repaired) return { scores: repaired.scores, tokens: first.tokens + second.tokens };
    throw new Error(
      `the judge's answer cannot be used, also after one request to repair it: ${
        repaired.problems.join("; ")
      }`,
    );
  }

  /** The scores, or problems that do not show a key. */
  #read({ text, is_cut_off }: JudgeReply, ids: readonly string[]): ReadAnswer {
    const { model } = this.#options, read = readAnswer(text, ids);
    if ("scores" in read) {
      for (const score of read.scores.values()) score.explanation = model.redact(score.explanation);
      return read;
    }
    const problems = is_cut_off ? ["the answer ended before it was whole", ...read.problems] : read.problems;
    return { problems: problems.map((problem) => model.redact(problem)) };
  }
}

/** The scores of an answer by id, and its tokens. */
interface KeptAnswer {
  scores: Map<string, JudgedScore>;
  tokens: number;
}

/** The key of a question: another model, other messages or another form of the answer give another one. */
function judgementKey(identity: string, { messages, schema }: RulerRequest): string {
  return createHash("sha256").update(JSON.stringify([identity, messages, schema])).digest("hex");
}

function writtenAnswer({ scores, tokens }: KeptAnswer): unknown {
  const list = Array.from(
    scores,
    ([trajectory_id, { score, explanation }]) => ({ trajectory_id, explanation, score }),
  );
  return { scores: list, tokens };
}

/** A kept answer, checked like one of the model; null when it cannot be used. */
function keptAnswer(value: unknown, ids: readonly string[]): KeptAnswer | null {
  const read = checkScores(value, ids);
  if (!("scores" in read) || !isJsonObject(value)) return null;
  const { tokens } = value;
  return {
    scores: read.scores,
    tokens: Number.isSafeInteger(tokens) && Number(tokens) >= 0 ? Number(tokens) : 0,
  };
}

function repairMessages(
  { text }: JudgeReply,
  problems: readonly string[],
  ids: readonly string[],
): ChatMessage[] {
  const listed = ids.map((id) => `"${id}"`).join(", ");
  const wrong = problems.map((problem) => `- ${problem}`).join("\n");
  const content =
    `Your answer cannot be used:\n${wrong}\n\nAnswer again with one JSON object of the same form, and ` +
    `nothing else. Each of these trajectory_ids has exactly one entry, with a score between 0 and 1: ${listed}.`;
  return [
    { role: "assistant", content: fittedText(text || "(no text)", MAX_REPEATED_CHARS) },
    { role: "user", content },
  ];
}
