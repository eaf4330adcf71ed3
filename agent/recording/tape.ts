/** The recording of a rollout's world, and its replay: wrappers around what all kinds of worlds share. */

import type { EnvironmentFactory } from "../environment/environment.ts";
import type { Grader } from "../grading/grader.ts";

/** An attempt of a rollout. */
export interface AttemptPlace {
  group: number;
  member: number;
}

/** Where the wall-clock limit of an attempt was noticed. */
export interface LimitPlace {
  /** `turn`: before one; `generated`: after the model's tokens; `call`: at a tool; `continued`: after the results. */
  place: "turn" | "generated" | "call" | "continued";
  /** Turns that the attempt has, this one included. */
  turns: number;
  /** Tokens that the model sampled in the last of them. */
  tokens: number;
}

/** The wall-clock limit of attempts. */
export interface AttemptLimits {
  /** The limit has passed. */
  passed(attempt: AttemptPlace, at: LimitPlace): void;
  /** Where the recorded attempt met the limit; null: nowhere. Absent: the clock decides. */
  recorded?(attempt: AttemptPlace): LimitPlace | null;
}

/** The parts of a world that attempts use. */
export interface RolloutWorld {
  environment: EnvironmentFactory;
  graders: readonly Grader[];
}

/** The recording of one rollout while it is made or replayed. */
export interface RolloutTape {
  /** Whether answers come from the recording: then nothing of the wrapped world is opened or started. */
  readonly is_replayed: boolean;
  readonly limits: AttemptLimits;
  /** Aborts when the rollout must end because it departs from the recording. */
  readonly departed: AbortSignal;
  /** The world through the tape. */
  wrap(world: RolloutWorld): RolloutWorld;
  /**
   * The rollout has ended.
   *
   * @param failure What ended it; null: it is complete.
   * @throws {ServiceError} `conflict` for a replay that departed.
   */
  end(failure: unknown): Promise<void>;
}

/** Opens the tapes of a run's rollouts by their names, see {@link rolloutName}. */
export interface Tapes {
  /** @throws {ServiceError} `path_not_found` or `format_invalid` for a recording that cannot be replayed. */
  open(rollout: string): Promise<RolloutTape>;
}

/** The name of a rollout of a run: that of an update, or that of the evaluation after so many updates. */
export function rolloutName(kind: "update" | "evaluation", updates: number): string {
  return `${kind}_${String(updates).padStart(6, "0")}`;
}
