/** Fixtures of a judge: groups of attempts with labels, one JSON object a line. */

import { z } from "zod";
import { describeIssue } from "../config/check/data_issues.ts";
import { type ChatMessage, type Message, normalizeMessages } from "../core/chat.ts";
import { chatMessageSchema } from "../core/chat_schema.ts";
import { ServiceError } from "../core/errors.ts";
import { parseObject } from "./jsonl.ts";
import { readRows } from "./problems.ts";

/** A group of labelled attempts. */
export interface JudgeFixture {
  id: string;
  rubric: string | null;
  /** At least two. */
  trajectories: { messages: Message[]; label: number }[];
}

/** What labels mean: `scores`, where more is better, or `ranks`, where 1 is the best. */
export type LabelKind = "scores" | "ranks";

const fixtureSchema = z.strictObject({
  id: z.string().min(1),
  rubric: z.string().min(1).optional(),
  trajectories: z.array(z.strictObject({
    messages: z.array(chatMessageSchema).min(1),
    label: z.number(),
  })).min(2),
});

/**
 * Reads fixtures.
 *
 * @throws {ServiceError} `path_not_found`; `data_invalid` with the lines.
 */
export async function readJudgeFixtures(path: string): Promise<JudgeFixture[]> {
  const line_of = new Map<string, number>();
  return await readRows(path, {}, (line) => {
    const value = parseObject(path, line), place = { path, line: line.line };
    const refuse = (reason: string) =>
      new ServiceError("data_invalid", `Cannot read ${path}:${line.line}: ${reason}`, place);
    const parsed = fixtureSchema.safeParse(value);
    if (!parsed.success) {
      throw refuse(parsed.error.issues.map((issue) => describeIssue(issue, value)).join("; "));
    }
    const { id, rubric = null, trajectories } = parsed.data, first = line_of.get(id);
    if (first !== undefined) throw refuse(`the id ${JSON.stringify(id)} is that of line ${first}`);
    line_of.set(id, line.line);
    return {
      ...{ id, rubric },
      trajectories: trajectories.map(({ messages, label }) => ({
        messages: normalizeMessages(messages as ChatMessage[]),
        label,
      })),
    };
  });
}

/**
 * What the labels of fixtures look like: ranks when each fixture's are whole numbers from 1 up to the number of its
 * trajectories, and one of them is 1; else scores.
 */
export function labelKind(fixtures: readonly JudgeFixture[]): LabelKind {
  const areRanks = fixtures.every(({ trajectories }) => {
    const labels = trajectories.map(({ label }) => label);
    return labels.includes(1) &&
      labels.every((label) => Number.isInteger(label) && label >= 1 && label <= labels.length);
  });
  return areRanks ? "ranks" : "scores";
}
