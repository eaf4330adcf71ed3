/** Reads a judge's answer, which is untrusted text, and checks it. */

import { answerObjects } from "../../core/chat_api/answer_objects.ts";
import { isJsonObject } from "../../core/json.ts";
import { inline } from "../../core/text.ts";
import { fittedText } from "./fitted_text.ts";

/** The most characters of an explanation; a longer one is shortened. */
export const MAX_EXPLANATION_CHARS = 2000;

/** The most problems of an answer that are named. */
export const MAX_PROBLEMS = 8;

/** The most characters of a judge's own text in a message. */
export const MAX_QUOTED_CHARS = 40;

/** The longest text in which an answer is looked for. */
export const MAX_ANSWER_CHARS = 200_000;

/** A judge's opinion of an attempt. */
export interface JudgedScore {
  /** In [0, 1]. */
  score: number;
  explanation: string;
}

/** A score for every id; or what is wrong with the answer. */
export type ReadAnswer = { scores: Map<string, JudgedScore> } | { problems: string[] };

/** Reads the scores in a judge's text: each of `ids` must have exactly one, a finite number in [0, 1]. */
export function readAnswer(text: string, ids: readonly string[]): ReadAnswer {
  if (text.length > MAX_ANSWER_CHARS) {
    return { problems: [`it is longer than ${MAX_ANSWER_CHARS} characters`] };
  }
  const found = answerObjects(text, "scores");
  if (found.length === 0) return { problems: ['there is no JSON object with "scores"'] };
  if (found.length > 1) {
    return { problems: [`there are ${found.length} JSON objects with "scores", not one`] };
  }
  return checkScores(found[0], ids);
}

/** Checks the scores of a parsed answer. */
export function checkScores(value: unknown, ids: readonly string[]): ReadAnswer {
  const list = isJsonObject(value) ? value.scores : undefined;
  if (!Array.isArray(list)) return { problems: ['"scores" is no list'] };
  const scores = new Map<string, JudgedScore>(), problems: string[] = [];
  const complain = (problem: string) => {
    if (problems.length < MAX_PROBLEMS) problems.push(problem);
  };
  for (const [i, entry] of list.entries()) {
    const read = readScore(entry, ids);
    if (typeof read === "string") complain(`entry ${i + 1} ${read}`);
    else if (scores.has(read.id)) complain(`trajectory_id "${read.id}" has more than one entry`);
    else scores.set(read.id, { score: read.score, explanation: read.explanation });
  }
  const missing = ids.filter((id) => !scores.has(id));
  if (missing.length > 0) {
    complain(`trajectory_id ${missing.map((id) => `"${id}"`).join(", ")} has no usable entry`);
  }
  return problems.length > 0 ? { problems } : { scores };
}

/** An entry; what is wrong with it, as the end of a sentence. */
function readScore(entry: unknown, ids: readonly string[]): JudgedScore & { id: string } | string {
  if (!isJsonObject(entry)) return "is no object";
  const { trajectory_id, explanation = "", score } = entry;
  const id = typeof trajectory_id === "number" ? String(trajectory_id) : trajectory_id;
  if (typeof id !== "string") return "has no trajectory_id";
  if (!ids.includes(id)) return `has the unknown trajectory_id ${quoted(id)}`;
  if (typeof explanation !== "string") return "has an explanation that is no text";
  if (typeof score !== "number") return "has a score that is no number";
  if (!(score >= 0 && score <= 1)) return `has the score ${score}, which is not between 0 and 1`;
  return { id, score, explanation: fittedText(explanation.toWellFormed(), MAX_EXPLANATION_CHARS) };
}

function quoted(text: string): string {
  const shown = inline(text.slice(0, MAX_QUOTED_CHARS).toWellFormed());
  return JSON.stringify(text.length > MAX_QUOTED_CHARS ? `${shown}…` : shown);
}
