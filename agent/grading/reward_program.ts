/** An operator's program that grades attempts: a JSON line in, a JSON line out, one process for the entire run. */

import type { Message } from "../../core/chat.ts";
import type { AsyncQueue } from "../../core/async_queue.ts";
import type { Clock } from "../../core/clock.ts";
import { doing } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { LineReader, LineTooLong } from "../../core/line_reader.ts";
import { Semaphore } from "../../core/semaphore.ts";
import { killProcessesOf } from "../environment/leftovers.ts";
import { killGroup, killProgram, startProgram } from "../environment/program.ts";
import { removeFolder, WORKSPACE_PREFIX } from "../environment/workspace.ts";
import { OutputTail } from "../environment/output_tail.ts";

/** The longest answer. */
export const MAX_ANSWER_BYTES = 1 << 20;

/** The largest absolute value of a reward; a larger one is a mistake of the program. */
export const MAX_REWARD = 1e6;

/** The kept end of what the program writes to its standard error while it grades a group. */
export const MAX_STDERR_BYTES = 2048;

/** How long to wait for the last output of a program that was killed or has closed its output. */
export const END_TIMEOUT_MS = 500;

export const MAX_QUOTED_CHARS = 80;

/** An attempt as the program receives it. */
export interface RewardRequest {
  id: string;
  /** As in the scenario file. */
  scenario: { id: string; user: string; system?: string; metadata: Record<string, unknown> };
  messages: readonly Message[];
  /** The environment's final state, where it offers one. */
  state?: unknown;
}

/** What the program says of an attempt. */
export interface RewardAnswer {
  id: string;
  reward: number;
  explanation: string | null;
}

/** `[agent.reward]`, and what the program needs beside it. */
export interface RewardProgramOptions {
  command: readonly string[];
  timeout_secs: number;
  cwd: string;
  /** The folder in which its HOME is made; absent: the system's folder of temporary files. */
  workspaces?: string;
  clock: Clock;
  /** Receives what the program writes to its standard error. */
  messages: Pick<AsyncQueue<string>, "push">;
}

interface Running {
  child: Deno.ChildProcess;
  input: WritableStreamDefaultWriter<Uint8Array>;
  answers: LineReader;
  stderr: OutputTail;
  ended: Promise<Deno.CommandStatus>;
  has_ended: boolean;
}

/**
 * Grades the attempts of one group at a time: all of them are sent at once, and the answers may come in any order. A
 * program that breaks, is too slow or answers wrongly is killed with all that it started, and is started again for the
 * next group.
 */
export class RewardProgram {
  readonly #options: RewardProgramOptions;
  readonly #turn = new Semaphore(1);
  /** Aborts when the program is closed. */
  readonly #life = new AbortController();
  #home: string | null = null;
  #running: Running | null = null;

  constructor(options: RewardProgramOptions) {
    this.#options = options;
  }

  /** Starts the program unless it runs. @throws {ServiceError} `environment_failed` when it cannot be started. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#turn.use(1, this.#within(signal), async () => void await this.#started());
  }

  /** The answers to requests with different ids, in their order. @throws When one has no usable answer. */
  async ask(requests: readonly RewardRequest[], signal: AbortSignal): Promise<RewardAnswer[]> {
    const within = this.#within(signal);
    return await this.#turn.use(1, within, async () => {
      const running = await this.#started();
      try {
        const answers = await this.#answers(running, requests, within);
        this.#reportOutput(running);
        return answers;
      } catch (error) {
        await this.#stop(running).catch(() => {});
        throw error;
      }
    });
  }

  /** Ends the program and all that it started. Never throws; a second call does nothing. */
  async close(): Promise<void> {
    this.#life.abort();
    await this.#turn.use(1, new AbortController().signal, async () => {
      if (this.#running) await this.#stop(this.#running).catch(() => {});
      if (this.#home !== null) await removeFolder(this.#home).catch(() => {});
      this.#home = null;
    });
  }

  #within(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, this.#life.signal]);
  }

  async #started(): Promise<Running> {
    if (this.#running && !this.#running.has_ended) return this.#running;
    if (this.#running) await this.#stop(this.#running);
    const { command: argv, cwd, workspaces } = this.#options;
    if (this.#home === null) {
      const place = { prefix: WORKSPACE_PREFIX, ...(workspaces !== undefined && { dir: workspaces }) };
      const made = await doing("make a home", () => Deno.makeTempDir(place), "environment_failed");
      this.#home = await Deno.realPath(made);
    }
    const name = "agent.reward.command";
    const child = await startProgram({ argv, name, cwd, home: this.#home, stdin: "piped" });
    const running: Running = {
      child,
      input: child.stdin.getWriter(),
      answers: new LineReader(child.stdout, MAX_ANSWER_BYTES),
      stderr: new OutputTail(child.stderr, MAX_STDERR_BYTES),
      has_ended: false,
      ended: child.status.finally(() => {
        running.has_ended = true;
        // A child that holds the pipes open would hide the end.
        killGroup(child.pid);
      }),
    };
    return this.#running = running;
  }

  async #answers(
    running: Running,
    requests: readonly RewardRequest[],
    signal: AbortSignal,
  ): Promise<RewardAnswer[]> {
    const waiting = new Map(requests.map(({ id }, i) => [id, i]));
    const answers: RewardAnswer[] = [];
    const lines = requests.map((request) => `${JSON.stringify(request)}\n`).join("");
    // A program that ends before it has read breaks the pipe; the missing answer shows that.
    running.input.write(new TextEncoder().encode(lines)).catch(() => {});
    while (waiting.size > 0) {
      const answer = readAnswer(await this.#line(running, signal)), place = waiting.get(answer.id);
      if (place === undefined) {
        throw new Error(`the program answered ${quoted(answer.id)}, which was not asked or had its answer`);
      }
      waiting.delete(answer.id);
      answers[place] = answer;
    }
    return answers;
  }

  /** The next line; the time counts from the last one. */
  async #line(running: Running, signal: AbortSignal): Promise<string> {
    const { clock, timeout_secs } = this.#options, stop = new AbortController();
    const late = clock.sleep(timeout_secs * 1000, AbortSignal.any([stop.signal, signal])).then(() => {
      throw new Error(`the program gave no answer within ${timeout_secs} s (agent.reward.timeout_secs)`);
    });
    late.catch(() => {});
    try {
      const line = await Promise.race([running.answers.next(), late]);
      if (line !== null) return line;
    } catch (error) {
      if (!(error instanceof LineTooLong)) throw error;
      throw new Error(`the program's answer has more than ${MAX_ANSWER_BYTES} bytes`);
    } finally {
      stop.abort();
    }
    throw new Error(`the program ${await this.#ending(running)} without an answer`);
  }

  /** How a program ended that has closed its output. */
  async #ending({ ended }: Running): Promise<string> {
    const status = await this.#soon(ended);
    if (!status) return "closed its standard output";
    return status.signal === null ? `exited with status ${status.code}` : `was killed by ${status.signal}`;
  }

  /** The result of work that is about to end; null when it takes longer than {@link END_TIMEOUT_MS}. */
  async #soon<T>(work: Promise<T>): Promise<T | null> {
    const stop = new AbortController();
    const late = this.#options.clock.sleep(END_TIMEOUT_MS, stop.signal).then(() => null);
    late.catch(() => {});
    try {
      return await Promise.race([work, late]);
    } finally {
      stop.abort();
    }
  }

  async #stop(running: Running): Promise<void> {
    const { child, input, answers, stderr, ended } = running;
    this.#running = null;
    killProgram(child);
    await ended;
    try {
      await killProcessesOf(this.#home!, { clock: this.#options.clock });
    } finally {
      await this.#soon(stderr.done);
      await Promise.all([stderr.cancel(), answers.cancel(), input.abort().catch(() => {})]);
      this.#reportOutput(running);
    }
  }

  /** Passes on what it wrote to standard error since the last time. */
  #reportOutput({ stderr }: Running): void {
    const text = stderr.take();
    if (text !== "") this.#options.messages.push(`the reward program wrote to standard error: ${text}`);
  }
}

function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED_CHARS ? `${text.slice(0, MAX_QUOTED_CHARS)}…` : text);
}

/** Reads an answer; other fields than its own are left to the program. @throws What is wrong with it. */
function readAnswer(line: string): RewardAnswer {
  const refuse = (reason: string) => new Error(`the program wrote ${quoted(line)}: ${reason}`);
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw refuse("it is not JSON; only answers belong on standard output");
  }
  if (!isJsonObject(value)) throw refuse("an answer is an object");
  const { id, reward, explanation = null } = value;
  if (typeof id !== "string") throw refuse("its id is not a string");
  if (typeof reward !== "number" || !(Math.abs(reward) <= MAX_REWARD)) {
    throw refuse(`its reward is not a number from -${MAX_REWARD} to ${MAX_REWARD}`);
  }
  if (explanation !== null && typeof explanation !== "string") {
    throw refuse("its explanation is not a string");
  }
  return { id, reward, explanation: explanation?.toWellFormed() ?? null };
}
