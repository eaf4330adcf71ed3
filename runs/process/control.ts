/**
 * The control pipe: commands come in as JSON lines, and answers go out as JSON lines. Every command is accepted or
 * refused at once. Requests (evaluate, generate, chat) get a second answer with their result.
 */

import { z } from "zod";
import { describeIssue } from "../../config/check/data_issues.ts";
import { number } from "../../config/sections/fields.ts";
import { anyObject, chatMessageSchema } from "../../core/chat_schema.ts";
import type { ErrorRecord } from "../../core/errors.ts";
import { errorRecord, ServiceError } from "../../core/errors.ts";
import { parseJson } from "../../core/json.ts";
import type { ChatRequest } from "../chat/chat_request.ts";
import type { Activity } from "../record/activity.ts";
import type { CommandEvent } from "../record/event.ts";
import { commandRefusal, type RunFacts, type RunState } from "../record/run.ts";

/** The longest line in bytes. */
export const MAX_COMMAND_BYTES = 4 << 20;

const id = z.union([z.string(), z.number()]);
/** The longest delay of a timer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

const timeout_ms = z.number().positive().max(MAX_TIMEOUT_MS).optional();

/** Only the role is checked here; the other fields are checked when the message is rendered. */
const message = chatMessageSchema.pick({ role: true }).loose();

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
    tools: z.array(anyObject).default([]),
    max_new_tokens: z.int().positive(),
    temperature: z.number().min(0).default(1),
    top_p: z.number().gt(0).max(1).default(1),
    seed: z.int().min(0).default(0),
    checkpoint: z.string().optional(),
    adapter: z.boolean().default(true),
    timeout_ms,
  }),
  // The server has checked the request already.
  z.strictObject({
    id,
    command: z.literal("chat"),
    request: z.custom<ChatRequest>((value) => typeof value === "object" && value !== null),
    checkpoint: z.string().optional(),
    adapter: z.boolean().default(true),
    timeout_ms,
  }),
  // Cancels a request: its sender does not want the answer any more.
  z.strictObject({ id, command: z.literal("drop"), request: id }),
]);

type ReceivedCommand = z.output<typeof commandSchema>;
type DropCommand = Extract<ReceivedCommand, { command: "drop" }>;
type ControlCommand = Exclude<ReceivedCommand, DropCommand>;
export type EvaluateCommand = Extract<ControlCommand, { command: "evaluate" }>;
export type GenerateCommand = Extract<ControlCommand, { command: "generate" }>;
/** The events of its answer are sent as items; its result is null. */
export type ChatCommand = Extract<ControlCommand, { command: "chat" }>;
export type LiveRequest = EvaluateCommand | GenerateCommand | ChatCommand;

type Id = string | number;

/** Outgoing messages. */
export type ControlMessage =
  | { id: string | number | null; accepted: true; takes_effect: "boundary" | "now" }
  | { id: string | number | null; accepted: false; error: ErrorRecord }
  | { id: string | number; result: unknown }
  | { id: string | number; item: unknown }
  | { id: string | number; error: ErrorRecord }
  /** All events up to this one are on disk. */
  | { durable_seq: number }
  /** What the run does between two events. */
  | { activity: Activity }
  /** A server's run is ready to train, and waits for {@link BEGIN}. */
  | { ready: true }
  /** The run could not start. */
  | { fatal: ErrorRecord };

/** The two ends of the pipe. */
export interface ControlPort {
  lines: AsyncIterable<string>;
  send(message: ControlMessage): void;
}

/** Commands that take effect between two updates, in order of arrival. */
type BoundaryCommand = Exclude<ControlCommand, LiveRequest>;

/** A server's answer to `ready`. All commands that the server accepted while the run started are in the pipe before it. */
export const BEGIN = { begin: true } as const;

export interface ControllerOptions {
  port: ControlPort;
  state: () => RunState;
  facts: () => RunFacts;
  /** Writes an accepted command into the log. Resolves when it is on disk: only then the command is acknowledged. */
  record: (event: CommandEvent) => Promise<void>;
  /**
   * Answers a request during training. `emit` sends an item before the result. The signal aborts at the time limit of the
   * request or at the end of the run.
   */
  ask: (command: LiveRequest, signal: AbortSignal, emit: (item: unknown) => void) => Promise<unknown>;
  /** A cancel with `at: "now"` arrived. */
  cancelNow: () => void;
}

export class Controller {
  readonly #options: ControllerOptions;
  readonly #ended = new AbortController();
  readonly #asked = new Set<{ id: Id; answered: Promise<void>; limit: AbortController }>();
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

  /** Handles a line of the pipe. Resolves when the command is acknowledged or refused. */
  async receive(line: string): Promise<void> {
    const { port, state, facts } = this.#options;
    let id: string | number | null = null;
    try {
      const value = parseLine(line);
      if (isBegin(value)) return this.#begun.resolve();
      const given = (value as { id?: unknown } | null)?.id;
      if (typeof given === "string" || typeof given === "number") id = given;
      const command = parseCommand(value);
      if (command.command === "drop") return this.#drop(command);
      const is_ending = this.#has_ended;
      const reason = is_ending ? "the run is ending" : commandRefusal(actionOf(command), state(), facts());
      if (reason !== null) {
        throw new ServiceError(
          "conflict",
          `Cannot ${command.command}: ${reason}`,
          is_ending ? { is_ending } : {},
        );
      }
      const takes_effect = isLiveRequest(command) || isKill(command) ? "now" : "boundary";
      const accepted = this.#accept(command, takes_effect);
      if (isLiveRequest(command)) this.#ask(command, accepted);
      else this.#boundary.push(command);
      if (isKill(command)) this.#options.cancelNow();
      await accepted;
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
    const is_ending = true;
    this.#ended.abort(new ServiceError("conflict", "Cannot answer: the run's process ends", { is_ending }));
    await Promise.all([...this.#asked].map(({ answered }) => answered));
  }

  #drop({ id, request }: DropCommand): void {
    this.#options.port.send({ id, accepted: true, takes_effect: "now" });
    const dropped = new ServiceError("cancelled", "Cannot answer: the request was dropped");
    for (const asked of this.#asked) if (asked.id === request) asked.limit.abort(dropped);
  }

  /** Records and acknowledges a command. Returns whether it was acknowledged. */
  async #accept(command: ControlCommand, takes_effect: "boundary" | "now"): Promise<boolean> {
    const { port, record } = this.#options;
    try {
      // Chats are many, and not about the run.
      if (command.command !== "chat") {
        const event = { command: command.command, arguments: argumentsOf(command), takes_effect };
        await record({ kind: "command", ...event });
      }
    } catch (error) {
      port.send({ id: command.id, accepted: false, error: errorRecord(error) });
      return false;
    }
    port.send({ id: command.id, accepted: true, takes_effect });
    return true;
  }

  #ask(command: LiveRequest, accepted: Promise<boolean>): void {
    const { port, ask } = this.#options;
    const limit = new AbortController();
    const reason = new ServiceError(
      "cancelled",
      `Cannot ${command.command}: it took more than ${command.timeout_ms} ms`,
    );
    const timer = command.timeout_ms === undefined
      ? undefined
      : setTimeout(() => limit.abort(reason), command.timeout_ms);
    const signal = AbortSignal.any([limit.signal, this.#ended.signal]);
    const asked = { id: command.id, limit, answered: Promise.resolve() };
    this.#asked.add(asked);
    const item = (item: unknown) => port.send({ id: command.id, item });
    const answer = async () => {
      if (!await accepted) return;
      try {
        signal.throwIfAborted();
        port.send({ id: command.id, result: await ask(command, signal, item) });
      } catch (error) {
        port.send({ id: command.id, error: errorRecord(error) });
      }
    };
    asked.answered = answer().finally(() => {
      clearTimeout(timer);
      this.#asked.delete(asked);
    });
  }
}

const isBegin = (value: unknown) => (value as Partial<typeof BEGIN> | null)?.begin === true;

/** A command's arguments as the log shows them: without the texts of a request, which may be long. */
function argumentsOf(command: ControlCommand): Record<string, unknown> {
  const { id: _, command: __, ...rest } = command;
  if (command.command !== "generate") return rest;
  const { messages, tools, ...short } = rest as Omit<GenerateCommand, "id" | "command">;
  return { ...short, messages: messages.length, tools: tools.length };
}

const isLiveRequest = (command: ControlCommand): command is LiveRequest =>
  ["evaluate", "generate", "chat"].includes(command.command);

/** The action that the run's state must allow: a chat is a generation. */
const actionOf = ({ command }: ControlCommand) => command === "chat" ? "generate" : command;

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

function parseCommand(value: unknown): ReceivedCommand {
  const parsed = commandSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ServiceError(
    "config_invalid",
    `Cannot read the command: ${parsed.error.issues.map((issue) => describeIssue(issue, value)).join("; ")}`,
  );
}

/** The lines of a byte stream. @throws {ServiceError} `config_invalid` at a line above {@link MAX_COMMAND_BYTES}. */
export async function* pipeLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
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
    lines: pipeLines(input),
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
