/**
 * The control pipe: JSON lines in, JSON lines out. Every command is accepted or refused at once. Requests (evaluate,
 * generate) get a second answer with their result.
 */

import { z } from "zod";
import { describeIssue } from "../../config/check/data_issues.ts";
import { number } from "../../config/sections/fields.ts";
import { ROLES } from "../../core/chat.ts";
import type { ErrorRecord } from "../../core/errors.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { parseJson } from "../../core/json.ts";
import type { CommandEvent } from "../record/event.ts";
import { refusal, type RunFacts, type RunState } from "../record/run.ts";

/** The longest line in bytes. */
export const MAX_COMMAND_BYTES = 4 << 20;

const id = z.union([z.string(), z.number()]);
/** The longest delay of a timer. */
export const MAX_TIMEOUT_MS = 2 ** 31 - 1;

const timeout_ms = z.number().positive().max(MAX_TIMEOUT_MS).optional();

const message = z.looseObject({ role: z.enum(ROLES) });

const commandSchema = z.discriminatedUnion("command", [
  z.strictObject({ id, command: z.literal("pause") }),
  z.strictObject({
    id,
    command: z.literal("cancel"),
    at: z.enum(["boundary", "now"]).default("boundary"),
    checkpoint: z.boolean().default(false),
  }),
  z.strictObject({ id, command: z.literal("checkpoint") }),
  z.strictObject({ id, command: z.literal("set_lr"), lr: number("training.lr") }),
  z.strictObject({
    id,
    command: z.literal("evaluate"),
    checkpoint: z.string().optional(),
    limit: z.int().positive().default(16),
    timeout_ms,
  }),
  z.strictObject({
    id,
    command: z.literal("generate"),
    messages: z.array(message).min(1),
    tools: z.array(z.looseObject({})).default([]),
    max_new_tokens: z.int().positive(),
    temperature: z.number().min(0).default(1),
    top_p: z.number().gt(0).max(1).default(1),
    seed: z.int().min(0).default(0),
    checkpoint: z.string().optional(),
    adapter: z.boolean().default(true),
    timeout_ms,
  }),
]);

export type ControlCommand = z.output<typeof commandSchema>;
export type EvaluateCommand = Extract<ControlCommand, { command: "evaluate" }>;
export type GenerateCommand = Extract<ControlCommand, { command: "generate" }>;

/** Outgoing messages. */
export type ControlMessage =
  | { id: string | number | null; accepted: true; takes_effect: "boundary" | "now" }
  | { id: string | number | null; accepted: false; error: ErrorRecord }
  | { id: string | number; result: unknown }
  | { id: string | number; error: ErrorRecord }
  /** All events up to this one are on disk. */
  | { durable_seq: number }
  /** A server's run is about to train; the server answers {@link BEGIN}. */
  | { ready: true }
  /** The run could not start. */
  | { fatal: ErrorRecord };

/** The two ends of the pipe. */
export interface ControlPort {
  lines: AsyncIterable<string>;
  send(message: ControlMessage): void;
}

/** Commands that take effect between two updates, in order of arrival. */
export type BoundaryCommand = Exclude<ControlCommand, EvaluateCommand | GenerateCommand>;

/** A server's answer to `ready`: the run has every command that it accepted while the run started. */
export const BEGIN = { begin: true } as const;

export interface ControllerOptions {
  port: ControlPort;
  state: () => RunState;
  facts: () => RunFacts;
  record: (event: CommandEvent) => void;
  /** Answers a request during training; the signal aborts at its time limit or the run's end. */
  ask: (command: EvaluateCommand | GenerateCommand, signal: AbortSignal) => Promise<unknown>;
  /** A cancel with `at: "now"` arrived. */
  cancelNow: () => void;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #ended = new AbortController();
  readonly #asked = new Set<Promise<void>>();
  readonly #begun: PromiseWithResolvers<void> = Promise.withResolvers();
  #boundary: BoundaryCommand[] = [];
  #has_ended = false;

  constructor(options: ControllerOptions) {
    this.#options = options;
  }

  /** Reads commands until the pipe ends. */
  async listen(): Promise<void> {
    try {
      for await (const line of this.#options.port.lines) if (line.trim() !== "") this.receive(line);
    } finally {
      this.#begun.resolve();
    }
  }

  /** Tells the server that the run is about to train, and waits for its {@link BEGIN}, or for the pipe's end. */
  async ready(): Promise<void> {
    this.#options.port.send({ ready: true });
    await this.#begun.promise;
  }

  /** Handles a line of the pipe and answers it. */
  receive(line: string): void {
    const { port, state, facts, record } = this.#options;
    let id: string | number | null = null;
    try {
      const value = parseLine(line);
      if (isBegin(value)) return this.#begun.resolve();
      const given = (value as { id?: unknown } | null)?.id;
      if (typeof given === "string" || typeof given === "number") id = given;
      const command = parseCommand(value);
      const is_ending = this.#has_ended;
      const reason = is_ending ? "the run is ending" : refusal(command.command, state(), facts());
      if (reason !== null) {
        throw new ServiceError(
          "conflict",
          `Cannot ${command.command}: ${reason}`,
          is_ending ? { is_ending } : {},
        );
      }
      const takes_effect = isQuestion(command) || isKill(command) ? "now" : "boundary";
      const { id: _, command: name, ...rest } = command;
      record({ kind: "command", command: name, arguments: rest, takes_effect });
      port.send({ id: command.id, accepted: true, takes_effect });
      if (isQuestion(command)) this.#ask(command);
      else this.#boundary.push(command);
      if (isKill(command)) this.#options.cancelNow();
    } catch (error) {
      port.send({ id, accepted: false, error: errorRecord(error) });
    }
  }

  /** Takes the commands that wait for a boundary; each is returned once. */
  takeBoundary(): BoundaryCommand[] {
    const taken = this.#boundary;
    this.#boundary = [];
    return taken;
  }

  /** Whether a command waits for a boundary. */
  get has_waiting(): boolean {
    return this.#boundary.length > 0;
  }

  /** Refuses all further commands, because the run can no longer obey them. */
  end(): void {
    this.#has_ended = true;
  }

  /** Aborts all open requests and waits until they are answered. */
  async close(): Promise<void> {
    this.end();
    this.#ended.abort(new ServiceError("conflict", "Cannot answer: the run's process ends"));
    await Promise.all(this.#asked);
  }

  #ask(command: EvaluateCommand | GenerateCommand): void {
    const { port, ask } = this.#options;
    const limit = new AbortController();
    const reason = new ServiceError(
      "cancelled",
      `Cannot ${command.command}: it took more than ${command.timeout_ms} ms`,
    );
    const timer = command.timeout_ms === undefined
      ? undefined
      : setTimeout(() => limit.abort(reason), command.timeout_ms);
    const answered = ask(command, AbortSignal.any([limit.signal, this.#ended.signal])).then(
      (result) => port.send({ id: command.id, result }),
      (error) => port.send({ id: command.id, error: errorRecord(error) }),
    ).finally(() => {
      clearTimeout(timer);
      this.#asked.delete(answered);
    });
    this.#asked.add(answered);
  }
}

const isBegin = (value: unknown) => (value as Partial<typeof BEGIN> | null)?.begin === true;

const isQuestion = (command: ControlCommand): command is EvaluateCommand | GenerateCommand =>
  command.command === "evaluate" || command.command === "generate";

const isKill = (command: ControlCommand) => command.command === "cancel" && command.at === "now";

function parseLine(line: string): unknown {
  try {
    return parseJson(line);
  } catch (error) {
    throw new ServiceError(
      "config_invalid",
      `Cannot read the command: it is no JSON (${(error as Error).message})`,
    );
  }
}

function parseCommand(value: unknown): ControlCommand {
  const parsed = commandSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ServiceError(
    "config_invalid",
    `Cannot read the command: ${parsed.error.issues.map((issue) => describeIssue(issue, value)).join("; ")}`,
  );
}

/** The lines of a byte stream. @throws {ServiceError} `config_invalid` at a line above {@link MAX_COMMAND_BYTES}. */
export async function* readLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of stream) {
    rest += decoder.decode(piece, { stream: true });
    for (let end = rest.indexOf("\n"); end >= 0; end = rest.indexOf("\n")) {
      yield rest.slice(0, end);
      rest = rest.slice(end + 1);
    }
    if (rest.length > MAX_COMMAND_BYTES) {
      throw new ServiceError(
        "config_invalid",
        `Cannot read the command: it has more than ${MAX_COMMAND_BYTES} bytes`,
      );
    }
  }
  if (rest !== "") yield rest;
}

/**
 * The control pipe over two byte streams, such as standard input and output. When the output can no longer be written,
 * messages are dropped: the run's log contains them, and the end of the input tells the run to stop.
 */
export function streamPort(
  input: ReadableStream<Uint8Array>,
  output: { writeSync(bytes: Uint8Array): number },
): ControlPort {
  let is_heard = true;
  return {
    lines: readLines(input),
    send(message) {
      if (!is_heard) return;
      const bytes = new TextEncoder().encode(JSON.stringify(message) + "\n");
      try {
        for (let at = 0; at < bytes.length;) at += output.writeSync(bytes.subarray(at));
      } catch {
        is_heard = false;
      }
    },
  };
}
