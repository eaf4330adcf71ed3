/** The questions of attempts and groups to their world. */

import { createHash } from "node:crypto";
import type { ToolCall } from "../../core/chat.ts";
import type { Environment, EnvironmentGrade, EnvironmentState } from "../environment/environment.ts";
import type { AttemptedGroup, Grader } from "../grading/grader.ts";
import type { CallAnswer } from "../tools/tool_host.ts";
import { encode, type Question } from "./entries.ts";
import type { AttemptPlace } from "./tape.ts";

/** Answers a question of an attempt, from the recording or by the work, whose answer is then recorded. */
export type Ask = <T>(question: Question, signal: AbortSignal, work: () => Promise<T>) => Promise<T>;

/** An environment whose answers go through a tape. */
export class TapedEnvironment implements Environment {
  readonly #ask: Ask;
  readonly own: Environment | null;
  readonly observation: unknown;

  /** @param given `own` null: there is only the recording. */
  constructor(
    readonly attempt: AttemptPlace,
    given: { own: Environment | null; observation: unknown },
    ask: Ask,
  ) {
    this.own = given.own;
    this.observation = given.observation;
    this.#ask = ask;
  }

  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    const { id, name, arguments: given } = call;
    const question = { op: "call", id, name, arguments: given };
    return this.#ask(question, signal, () => this.own!.call(call, signal));
  }

  grade(signal: AbortSignal): Promise<EnvironmentGrade> {
    return this.#ask({ op: "grade" }, signal, () => this.own!.grade(signal));
  }

  state(signal: AbortSignal): Promise<EnvironmentState> {
    return this.#ask({ op: "state" }, signal, () => this.own!.state(signal));
  }

  close(): Promise<void> {
    return this.own?.close() ?? Promise.resolve();
  }
}

/** The question of a group to a grader: what all graders see of its attempts, as a hash. */
export function gradeQuestion(grader: Grader["source"], { attempts }: AttemptedGroup): Question {
  const seen = attempts.map(({ trajectory, evidence }) => {
    const { member, stop_reason, messages, step_rewards } = trajectory;
    return { member, stop_reason, messages, step_rewards, evidence };
  });
  return { op: "grade_group", grader, sha256: createHash("sha256").update(encode(seen)).digest("hex") };
}
