/** Records the answers of a rollout's world. */

import type { Scenario } from "../../data/scenario.ts";
import { ServiceError } from "../../core/errors.ts";
import { BoundaryFailure } from "../trajectory/boundary.ts";
import type { Environment, EnvironmentFactory } from "../environment/environment.ts";
import type { AttemptedGroup, Grader, OpenAttempt } from "../grading/grader.ts";
import {
  type AskingPlace,
  encode,
  failureOf,
  type Question,
  type RecordedFailure,
  recordedTools,
  RECORDING_FORMAT,
} from "./entries.ts";
import { gradeQuestion, TapedEnvironment } from "./questions.ts";
import { MAX_RECORDED_LINE_BYTES, writeRecording } from "./recording_file.ts";
import type { AttemptLimits, RolloutTape, RolloutWorld, Tapes } from "./tape.ts";

/** Records every rollout into a file of its own. @param folder Made with the first recording. */
export function recordingTapes(folder: string): Tapes {
  return { open: (rollout) => Promise.resolve(new Recorder(folder, rollout)) };
}

/** A question while it is asked. */
interface Asking {
  at: AskingPlace;
  question: Question;
  /** The boundary's. */
  signal: AbortSignal;
}

/** The tools of scenarios, or why there are none, as text. */
type Catalogs = Map<string, Set<string>>;

class Recorder implements RolloutTape {
  readonly is_replayed = false;
  readonly departed = new AbortController().signal;
  /** In the order of the questions; null until there is an answer. */
  readonly #lines: { at: AskingPlace; text: string | null }[] = [];
  readonly #catalogs: Catalogs = new Map();

  constructor(readonly folder: string, readonly rollout: string) {}

  readonly limits: AttemptLimits = {
    passed: (attempt, at) => {
      const text = lineOf(attempt, { op: "limit" }, { answer: at });
      this.#lines.push({ at: attempt, text });
    },
  };

  wrap({ environment, graders }: RolloutWorld): RolloutWorld {
    return { environment: this.#environments(environment), graders: graders.map((own) => this.#grader(own)) };
  }

  async end(failure: unknown): Promise<void> {
    if (failure instanceof ServiceError && failure.code === "cancelled") return;
    const catalogs = [...this.#catalogs].map(([text, scenarios]) => (
      { scenarios: [...scenarios], ...JSON.parse(text) }
    ));
    const { rollout } = this, complete = failure === null;
    const entries = this.#lines.filter(({ text }) => text !== null).sort((a, b) => compare(a.at, b.at))
      .map(({ text }) => text!);
    const header = { format: RECORDING_FORMAT, rollout, complete, catalogs } as const;
    const writing = writeRecording(this.folder, header, entries);
    // The rollout's own failure matters more than a failure to record it.
    await (complete ? writing : writing.catch(() => {}));
  }

  #environments(own: EnvironmentFactory): EnvironmentFactory {
    const { call_timeout_ms, grading_advice } = own;
    return {
      ...{ call_timeout_ms, grading_advice },
      catalog: async (scenario, signal) => {
        const noted = (outcome: object) => this.#note(scenario, encode(outcome));
        try {
          const { name, version, tools } = await own.catalog(scenario, signal);
          noted({ answer: { name, version, tools: recordedTools(tools) } });
          return { name, version, tools };
        } catch (error) {
          if (!signal.aborted) noted({ failure: failureOf(error) });
          throw error;
        }
      },
      catalogs: (signal) => own.catalogs(signal),
      coverage: (scenario) => own.coverage(scenario),
      open: async (scenario, options) => {
        const { attempt, seed, signal } = options;
        // Nobody could ask for the answers again.
        if (!attempt) return await own.open(scenario, options);
        let opened: Environment | null = null;
        const question = { op: "open", scenario: scenario.id, seed };
        const observation = await this.#ask({ at: attempt, question, signal }, async () => {
          opened = await own.open(scenario, options);
          return (opened as Environment).observation ?? null;
        });
        return new TapedEnvironment(
          attempt,
          { own: opened!, observation },
          (question, signal, work) => this.#ask({ at: attempt, question, signal }, work),
        );
      },
      close: () => own.close(),
    };
  }

  #note(scenario: Scenario, outcome: string): void {
    const scenarios = this.#catalogs.get(outcome) ?? new Set();
    this.#catalogs.set(outcome, scenarios.add(scenario.id));
  }

  #grader(own: Grader): Grader {
    // What the environment's own grader says follows from the environment's answers.
    if (own.source === "environment") return own;
    return {
      ...shownBy(own),
      ...(own.start && { start: (signal) => own.start!(signal) }),
      ...(own.inspect && {
        inspect: (attempt: OpenAttempt, signal: AbortSignal) => {
          const { environment } = attempt;
          if (!(environment instanceof TapedEnvironment)) return own.inspect!(attempt, signal);
          // What the grader asks of the environment is no answer to the attempt.
          const inner = { ...attempt, environment: environment.own! };
          const question = { op: "inspect", grader: own.source };
          const asking = { at: environment.attempt, question, signal };
          return this.#ask(asking, () => own.inspect!(inner, signal));
        },
      }),
      grade: (group: AttemptedGroup, signal: AbortSignal) => {
        const at = { group: group.group.group, member: null };
        const question = gradeQuestion(own.source, group);
        return this.#ask({ at, question, signal }, () => own.grade(group, signal));
      },
    };
  }

  /** Records the answer, or the failure that comes first: the work's, or that of the boundary which gave it up. */
  async #ask<T>({ at, question, signal }: Asking, work: () => Promise<T>): Promise<T> {
    const line: { at: AskingPlace; text: string | null } = { at, text: null };
    this.#lines.push(line);
    const settle = (outcome: { answer: unknown } | { failure: RecordedFailure }) => {
      line.text ??= lineOf(at, question, outcome);
    };
    const abort = () => settle({ failure: failureOf(cancellation(signal)) });
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    try {
      const answer = await work();
      settle({ answer });
      return answer;
    } catch (error) {
      settle({ failure: failureOf(error) });
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }
}

/** What a wrapped grader says without being asked anything. */
export function shownBy(own: Grader) {
  const { source, grades_evaluations, shared_measures } = own;
  return {
    ...{ source, grades_evaluations, shared_measures },
    coverage: (scenario: Scenario) => own.coverage(scenario),
  };
}

/** Why a boundary gave up its work. */
function cancellation({ reason }: AbortSignal): BoundaryFailure {
  if (reason instanceof BoundaryFailure) return reason;
  return new BoundaryFailure({ boundary: "environment", message: "it was cancelled" }, "cancelled");
}

/** @throws {ServiceError} `environment_failed` for an answer that no recording can hold. */
function lineOf({ group, member }: AskingPlace, asked: Question, outcome: object): string {
  const text = encode({ group, member, asked, ...outcome });
  if (text.length <= MAX_RECORDED_LINE_BYTES / 3) return text;
  throw new ServiceError(
    "environment_failed",
    `Cannot record the answer to ${asked.op}: it has ${text.length} characters; set run.record = false`,
  );
}

/** Attempts in order, each group's own questions after those of its attempts. */
function compare(a: AskingPlace, b: AskingPlace): number {
  return a.group - b.group || (a.member ?? Infinity) - (b.member ?? Infinity) || 0;
}
