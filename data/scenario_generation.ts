/** Scenarios that a model writes: the requests, the reading of its answers, and the choice of tasks. */

import { z } from "zod";
import { describeIssue } from "../config/check/data_issues.ts";
import type { ChatMessage, JsonSchema, ToolDefinition } from "../core/chat.ts";
import { answerObjects } from "../core/chat_api/answer_objects.ts";
import { parseJson } from "../core/json.ts";
import { Rng, rngKey } from "../core/random.ts";
import { DistinctTexts } from "./near_duplicates.ts";

/** The most tasks of a request. */
export const TASKS_PER_REQUEST = 20;

/** The requests that an ideal model needs, times this, are the most that are made; each may be repaired once. */
export const REQUESTS_FACTOR = 3;

/** The most characters of earlier tasks that a request repeats, the newest first, so that they are not written again. */
export const MAX_REPEATED_CHARS = 8000;

/** The most characters of a task, and of a broken answer that is sent back. */
export const MAX_TASK_CHARS = 8000;

const LEVELS = [1, 2, 3, 4, 5] as const;

/** A task that was written, with its difficulty from 1 to 5. */
export interface GeneratedTask {
  task: string;
  difficulty: number;
}

/** Asks the model; its text may be anything. */
export type AskModel = (messages: readonly ChatMessage[]) => Promise<string>;

/** What is asked for. */
export interface GenerationOptions {
  tools: readonly ToolDefinition[];
  count: number;
  /** Determines the order of the tasks. */
  seed: number;
}

/** What a generation gave. */
export interface Generated {
  /** At most `count`, in random order. */
  tasks: GeneratedTask[];
  requests: number;
  /** Tasks that were near-duplicates. */
  duplicates: number;
  /** Answers that could not be read even after the repair. */
  broken: number;
  /** Why the last of these could not; null: there is none. */
  problem: string | null;
  /** The error that ended it early; null: none did. */
  error: unknown;
}

const answerSchema = z.object({
  scenarios: z.array(z.object({
    task: z.string().trim().min(1).max(MAX_TASK_CHARS),
    difficulty: z.int().min(1).max(LEVELS.length),
  })),
});

/** The form of an answer, for endpoints that can enforce it. */
export const ANSWER_SCHEMA: JsonSchema = {
  type: "object",
  properties: {
    scenarios: {
      type: "array",
      items: {
        type: "object",
        properties: {
          task: { type: "string" },
          difficulty: { type: "integer", enum: [...LEVELS] },
        },
        required: ["task", "difficulty"],
        additionalProperties: false,
      },
    },
  },
  required: ["scenarios"],
  additionalProperties: false,
};

/** Tasks wanted of each level: equal numbers, the easy levels first where they cannot be equal. */
function wantedByLevel(count: number): number[] {
  return LEVELS.map((level) => Math.floor((count + LEVELS.length - level) / LEVELS.length));
}

/** The most requests for this many tasks. */
export function requestLimit(count: number): number {
  return Math.ceil(count / TASKS_PER_REQUEST) * REQUESTS_FACTOR;
}

/**
 * The request for further tasks.
 *
 * @param wanted The number of tasks of each level.
 * @param known Earlier tasks.
 */
export function generationMessages(
  tools: readonly ToolDefinition[],
  wanted: readonly number[],
  known: readonly GeneratedTask[] = [],
): ChatMessage[] {
  const levels = LEVELS.flatMap((level) => {
    const n = wanted[level - 1]!;
    return n > 0 ? [`- ${n} of difficulty ${level}`] : [];
  });
  const total = wanted.reduce((sum, n) => sum + n, 0);
  const repeated = repeatedTasks(known);
  const text = [
    `Write ${total} different tasks for an assistant that has only the tools below. Difficulty 1 takes one obvious ` +
    "call; difficulty 5 takes many calls that depend on each other's results. Write:",
    levels.join("\n"),
    "Each task is what a user would say to the assistant. It is complete by itself, can be done with these tools alone, " +
    "does not name a tool, and one can check afterwards whether it was done. Vary the subject, the wording and the " +
    "length.",
    `The tools:\n${JSON.stringify(tools, null, 1)}`,
    ...(repeated === ""
      ? []
      : [`These tasks are there already. Write none that resembles one of them:\n${repeated}`]),
    'Answer with JSON alone: {"scenarios": [{"task": "…", "difficulty": 1}]}',
  ].join("\n\n");
  return [
    { role: "system", content: "You write tasks on which an assistant that calls tools is trained." },
    { role: "user", content: text },
  ];
}

/** The newest tasks that fit. */
function repeatedTasks(known: readonly GeneratedTask[]): string {
  const lines: string[] = [];
  let left = MAX_REPEATED_CHARS;
  for (const { task } of known.toReversed()) {
    const line = `- ${task.replaceAll(/\s+/g, " ")}`;
    if ((left -= line.length + 1) < 0) break;
    lines.unshift(line);
  }
  return lines.join("\n");
}

/** The tasks of an answer, or the reason why it cannot be read. Text around the JSON, such as a fence, is left out. */
export function readAnswer(text: string): GeneratedTask[] | string {
  const found = answerObjects(text, "scenarios");
  if (found.length > 1) return `it has ${found.length} JSON objects with "scenarios", not one`;
  let [value]: unknown[] = found;
  try {
    value ??= parseJson(text);
  } catch (error) {
    return `it is not JSON (${(error as Error).message})`;
  }
  const parsed = answerSchema.safeParse(value);
  if (!parsed.success) return describeIssue(parsed.error.issues[0]!, value);
  return parsed.data.scenarios.length > 0 ? parsed.data.scenarios : "it has no task";
}

/**
 * Asks for tasks until there are `count` with all difficulties in equal numbers, but at most {@link requestLimit}
 * times. An answer that cannot be read is asked for once more. Never throws: an error ends the generation, and what there
 * is by then is returned.
 */
export async function generateTasks(
  { tools, count, seed }: GenerationOptions,
  ask: AskModel,
): Promise<Generated> {
  const distinct = new DistinctTexts(), found: GeneratedTask[] = [];
  const generated: Omit<Generated, "tasks"> = {
    ...{ requests: 0, duplicates: 0, broken: 0, problem: null, error: null },
  };
  try {
    while (generated.requests < requestLimit(count)) {
      const wanted = nextBatch(found, count);
      if (wanted === null) break;
      generated.requests++;
      const tasks = await askRepaired(generationMessages(tools, wanted, found), ask);
      if (typeof tasks === "string") {
        generated.broken++;
        generated.problem = tasks;
        continue;
      }
      for (const task of tasks) {
        if (distinct.add(task.task)) found.push(task);
        else generated.duplicates++;
      }
    }
  } catch (error) {
    generated.error = error;
  }
  return { tasks: new Rng(rngKey(seed, "scenarios")).shuffle(chosen(found, count)), ...generated };
}

/** The tasks of each level for the next request; null when none is missing. */
function nextBatch(found: readonly GeneratedTask[], count: number): number[] | null {
  const missing = wantedByLevel(count).map((wanted, i) =>
    Math.max(0, wanted - found.filter(({ difficulty }) => difficulty === i + 1).length)
  );
  const total = missing.reduce((sum, n) => sum + n, 0);
  if (total === 0) return null;
  const batch = missing.map(() => 0);
  // Level by level, so that every request has a spread of its own.
  for (let n = Math.min(total, TASKS_PER_REQUEST), i = 0; n > 0; i++) {
    const level = i % missing.length;
    if (batch[level]! >= missing[level]!) continue;
    batch[level]!++;
    n--;
  }
  return batch;
}

/** The first tasks of each level that are wanted; where a level has too few, others in the order in which they came. */
function chosen(found: readonly GeneratedTask[], count: number): GeneratedTask[] {
  const left = wantedByLevel(count);
  const isWanted = ({ difficulty }: GeneratedTask) => left[difficulty - 1]!-- > 0;
  const kept = new Set(found.filter(isWanted));
  for (const task of found) if (kept.size < count) kept.add(task);
  return found.filter((task) => kept.has(task));
}

/** The tasks, or what is wrong with the second answer too. */
async function askRepaired(
  messages: readonly ChatMessage[],
  ask: AskModel,
): Promise<GeneratedTask[] | string> {
  const answer = await ask(messages), read = readAnswer(answer);
  if (typeof read !== "string") return read;
  const content =
    `Your answer cannot be used: ${read}. Answer again, with JSON alone in the form that was asked for.`;
  return readAnswer(
    await ask([
      ...messages,
      { role: "assistant", content: answer.slice(0, MAX_TASK_CHARS).toWellFormed() },
      { role: "user", content },
    ]),
  );
}

/** The lines of a scenario file. */
export function scenarioLines(tasks: readonly GeneratedTask[]): string[] {
  const digits = String(tasks.length).length;
  return tasks.map(({ task, difficulty }, i) =>
    JSON.stringify({
      id: `generated-${String(i + 1).padStart(digits, "0")}`,
      user: task,
      metadata: { difficulty },
    })
  );
}
