/** What a recording holds of one rollout: every question to the world of its attempts, and the answer. */

import { z } from "zod";
import type { ToolFunction } from "../../core/chat.ts";
import { errorFromRecord, type ErrorRecord, ServiceError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { fullSchema, isFullSchema } from "../tools/arguments.ts";
import { BoundaryFailure } from "../trajectory/boundary.ts";
import { FAILURE_BOUNDARIES } from "../trajectory/trajectory.ts";

/** The version of the form of recordings. */
export const RECORDING_FORMAT = 2;

/** Who asked: an attempt, or a group when `member` is null. */
export interface AskingPlace {
  group: number;
  member: number | null;
}

/** A question as plain data; equal questions have equal JSON. */
export type Question = Readonly<{ op: string } & Record<string, unknown>>;

const failureSchema = z.object({
  kind: z.enum(["failed", "timeout", "cancelled"]),
  /** Of an error that named its boundary itself. */
  boundary: z.enum(FAILURE_BOUNDARIES).optional(),
  /** Of an operating failure. */
  code: z.string().optional(),
  /** Another run may not have it (`details.transient`). */
  transient: z.literal(true).optional(),
  message: z.string(),
});

/** Why there was no answer. */
export type RecordedFailure = z.output<typeof failureSchema>;

const catalogSchema = z.object({
  name: z.string(),
  version: z.string(),
  tools: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      parameters: z.record(z.string(), z.unknown()),
      /** All of JSON Schema was checked. */
      full_schema: z.literal(true).optional(),
    }),
  ),
});

/** Tools for a header; {@link replayedTools} is the inverse. */
export function recordedTools(tools: readonly ToolFunction[]): RecordedTool[] {
  return tools.map((tool) => isFullSchema(tool.parameters) ? { ...tool, full_schema: true } : tool);
}

/** The tools of a header, whose arguments are checked as they were. */
export function replayedTools(tools: readonly RecordedTool[]): ToolFunction[] {
  return tools.map(({ full_schema, ...tool }) => {
    // What was left out of the schema of a server is left out again, and that of a configuration has nothing such.
    if (full_schema) fullSchema(tool.parameters, "leave_out");
    return tool;
  });
}

type RecordedTool = z.output<typeof catalogSchema>["tools"][number];

/** The first line of a recording. */
export const headerSchema = z.object({
  format: z.literal(RECORDING_FORMAT),
  rollout: z.string(),
  /** False when an error ended the rollout: later answers are missing. */
  complete: z.boolean(),
  /** The tools of the scenarios. */
  catalogs: z.array(z.object({
    scenarios: z.array(z.string()),
    answer: catalogSchema.optional(),
    failure: failureSchema.optional(),
  })),
});

/** The first line of a recording. */
export type RecordingHeader = z.output<typeof headerSchema>;

/** A line between the first and the last. */
export const entrySchema = z.object({
  group: z.int().gte(0),
  member: z.int().gte(0).nullable(),
  // As it is: its JSON is compared.
  asked: z.custom<Question>((value) => isJsonObject(value) && typeof value.op === "string"),
  answer: z.unknown().optional(),
  failure: failureSchema.optional(),
});

/** A question and its answer; without both `answer` and `failure` the answer was undefined. */
export type Entry = z.output<typeof entrySchema>;

/** Stands for the numbers that JSON does not have. */
const NUMBER_KEY = "\u0000number";

/** JSON that keeps every number, also −0 and those that are not finite. */
export function encode(value: unknown): string {
  return JSON.stringify(value, (_, item) => {
    if (typeof item !== "number" || (Number.isFinite(item) && !Object.is(item, -0))) return item;
    return { [NUMBER_KEY]: Object.is(item, -0) ? "-0" : String(item) };
  });
}

/** The inverse of {@link encode}. */
export function decode(text: string): unknown {
  return JSON.parse(text, (_, item) => {
    const number = item !== null && typeof item === "object" ? item[NUMBER_KEY] : undefined;
    return typeof number === "string" ? Number(number) : item;
  });
}

/** Why work at a boundary failed. */
export function failureOf(error: unknown): RecordedFailure {
  if (error instanceof BoundaryFailure) {
    return { kind: error.kind, ...error.failure, ...transienceOf(error.cause) };
  }
  const message = error instanceof Error ? error.message : String(error);
  if (!(error instanceof ServiceError)) return { kind: "failed", message };
  return { kind: "failed", message, code: error.code, ...transienceOf(error) };
}

/** Whether an error says that another run may not have it. */
function transienceOf(error: unknown): { transient?: true } {
  return error instanceof ServiceError && error.details.transient === true ? { transient: true } : {};
}

/** An error that has the effect of the recorded one. */
export function errorOf({ kind, boundary, code, transient, message }: RecordedFailure): Error {
  const details = transient ? { transient } : {};
  if (boundary !== undefined) {
    const cause = transient && new ServiceError("environment_failed", message, details);
    return new BoundaryFailure({ boundary, message }, kind, { cause });
  }
  return code === undefined
    ? new Error(message)
    : errorFromRecord({ code: code as ErrorRecord["code"], message, details });
}
