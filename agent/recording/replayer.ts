/** Replays the answers of a recorded rollout: nothing of the world is opened or started. */

import { assert, ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import type { EnvironmentFactory, OfferedCatalog } from "../environment/environment.ts";
import type { AttemptedGroup, Grader, GroupGrades, Inspection, OpenAttempt } from "../grading/grader.ts";
import type { ToolCatalog } from "../tools/tool_host.ts";
import { BoundaryFailure } from "../trajectory/boundary.ts";
import {
  type AskingPlace,
  encode,
  type Entry,
  errorOf,
  type Question,
  type RecordingHeader,
  replayedTools,
} from "./entries.ts";
import { gradeQuestion, TapedEnvironment } from "./questions.ts";
import { shownBy } from "./recorder.ts";
import { readRecording, type Recording, recordingPath } from "./recording_file.ts";
import type { AttemptLimits, LimitPlace, RolloutTape, RolloutWorld, Tapes } from "./tape.ts";

/** What a departure from the recording does: it ends the run, or only the attempt. */
export type Departures = "end_run" | "fail_attempt";

/** A recording to replay; plain data. */
export interface ReplaySource {
  /** The folder of the recordings. */
  folder: string;
  departures: Departures;
}

/** Replays the rollouts whose recordings are in a folder. */
export function replayTapes({ folder, departures }: ReplaySource): Tapes {
  return {
    async open(rollout) {
      const path = recordingPath(folder, rollout);
      if (!await Deno.stat(path).then(({ isFile }) => isFile, () => false)) {
        throw new ServiceError(
          "path_not_found",
          `Cannot replay ${rollout}: there is no recording of it at ${path}; the recorded run ended before it`,
          { path },
        );
      }
      return new Replayer(rollout, await readRecording(path), departures);
    },
  };
}

/** The recorded answers to one attempt or group. */
interface Answers {
  entries: readonly Entry[];
  /** The number of answers that were given. */
  given: number;
  limit: LimitPlace | null;
}

/** The most characters of a question in a message. */
export const QUOTED_CHARS = 200;

const keyOf = ({ group, member }: AskingPlace) => `${group}/${member}`;

class Replayer implements RolloutTape {
  readonly is_replayed = true;
  readonly #answers = new Map<string, Answers>();
  readonly #departed = new AbortController();
  readonly #header: RecordingHeader;
  #departure: ServiceError | null = null;

  constructor(readonly rollout: string, { header, entries }: Recording, readonly departures: Departures) {
    this.#header = header;
    for (const [key, of_key] of Map.groupBy(entries, keyOf)) {
      const limit = of_key.find(({ asked }) => asked.op === "limit")?.answer as LimitPlace | undefined;
      const asked = of_key.filter(({ asked }) => asked.op !== "limit");
      this.#answers.set(key, { entries: asked, given: 0, limit: limit ?? null });
    }
  }

  get departed(): AbortSignal {
    return this.#departed.signal;
  }

  readonly limits: AttemptLimits = {
    passed: () => {},
    recorded: (attempt) => this.#answers.get(keyOf(attempt))?.limit ?? null,
  };

  wrap({ environment, graders }: RolloutWorld): RolloutWorld {
    return { environment: this.#environments(environment), graders: graders.map((own) => this.#grader(own)) };
  }

  end(failure: unknown): Promise<void> {
    if (failure === null && this.#header.complete) this.#checkGiven();
    return this.#departure ? Promise.reject(this.#departure) : Promise.resolve();
  }

  /** A replay that asks for less than the recording has departs too. */
  #checkGiven(): void {
    for (const [key, { entries, given }] of this.#answers) {
      const next = entries[given];
      if (next) this.#depart(`${placeText(key)}: it never asks for ${quoted(next.asked)}`);
    }
  }

  #environments(own: EnvironmentFactory): EnvironmentFactory {
    const { call_timeout_ms, grading_advice } = own;
    return {
      ...{ call_timeout_ms, grading_advice },
      ...recordedCatalogs([this.#header], (scenario) => {
        throw this.#depart(`scenario ${JSON.stringify(scenario.id)} has no tools in the recording`);
      }),
      coverage: (scenario) => own.coverage(scenario),
      open: (scenario, { attempt, seed }) =>
        Promise.try(() => {
          assert(attempt, "a replayed rollout says which attempt opens an environment");
          const observation = this.#answer(attempt, { op: "open", scenario: scenario.id, seed });
          return new TapedEnvironment(
            attempt,
            { own: null, observation },
            (question) => Promise.try(() => this.#answer(attempt, question)) as Promise<never>,
          );
        }),
      close: () => Promise.resolve(),
    };
  }

  #grader(own: Grader): Grader {
    if (own.source === "environment") return own;
    const grader = own.source;
    return {
      ...shownBy(own),
      ...(own.inspect && {
        inspect: ({ environment }: OpenAttempt) =>
          Promise.try(() => {
            assert(environment instanceof TapedEnvironment, "a replayed attempt has a replayed environment");
            return this.#answer(environment.attempt, { op: "inspect", grader }) as Inspection;
          }),
      }),
      grade: (group: AttemptedGroup) =>
        Promise.try(() => {
          const at = { group: group.group.group, member: null };
          return this.#answer(at, gradeQuestion(grader, group)) as GroupGrades | null;
        }),
    };
  }

  /** The next answer to an attempt or group, if it was given to this question. */
  #answer(at: AskingPlace, question: Question): unknown {
    const answers = this.#answers.get(keyOf(at)), next = answers?.entries[answers.given];
    if (!next) {
      // The attempt's time ended between two calls.
      if (answers?.limit?.place === "call") {
        throw new BoundaryFailure({ boundary: "tool", message: "the tool was cancelled" }, "cancelled");
      }
      throw this.#depart(`${placeText(keyOf(at))}: the recording has no answer to ${quoted(question)}`);
    }
    if (encode(next.asked) !== encode(question)) {
      throw this.#depart(
        `${placeText(keyOf(at))}: it asks ${quoted(question)}, and the recorded one asked ${
          quoted(next.asked)
        }`,
      );
    }
    answers!.given++;
    if (next.failure) throw errorOf(next.failure);
    return next.answer;
  }

  /** The error of a question that the recording does not answer; it may end the rollout. */
  #depart(reason: string): ServiceError {
    if (this.departures === "fail_attempt") {
      return new ServiceError("environment_failed", `Cannot replay ${this.rollout}, ${reason}`);
    }
    this.#departure ??= new ServiceError(
      "conflict",
      `Cannot replay ${this.rollout}, ${reason}; a replay needs the program, model, device and driver of the recording`,
    );
    this.#departed.abort(this.#departure);
    return this.#departure;
  }
}

/** "group 0, member 3" */
function placeText(key: string): string {
  const [group, member] = key.split("/");
  return member === "null" ? `group ${group}` : `group ${group}, member ${member}`;
}

function quoted(question: Question): string {
  const text = encode(question);
  return text.length > QUOTED_CHARS ? `${text.slice(0, QUOTED_CHARS).toWellFormed()}…` : text;
}

/**
 * The tools of recorded scenarios.
 *
 * @param missing The tools of a scenario without any; it may throw.
 */
export function recordedCatalogs(
  headers: readonly RecordingHeader[],
  missing: (scenario: Scenario) => ToolCatalog,
): Pick<EnvironmentFactory, "catalog" | "catalogs"> {
  const lists = headers.flatMap(({ catalogs }) => catalogs).map(({ answer, ...list }) => ({
    ...list,
    ...(answer && { answer: { ...answer, tools: replayedTools(answer.tools) } }),
  }));
  return {
    catalog: (scenario) =>
      Promise.try(() => {
        const found = lists.find(({ scenarios }) => scenarios.includes(scenario.id));
        if (found?.failure) throw errorOf(found.failure);
        return found?.answer ?? missing(scenario);
      }),
    catalogs: () => {
      const distinct = new Map(lists.flatMap(({ answer }) => answer ? [[encode(answer), answer]] : []));
      const offered = [...distinct.values()].map((answer, i): OfferedCatalog => ({
        ...answer,
        is_default: i === 0,
      }));
      return Promise.resolve(offered);
    },
  };
}
