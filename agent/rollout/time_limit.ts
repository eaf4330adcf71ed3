/** The wall-clock limit of one attempt: by the clock, or where a recorded attempt met it. */

import type { AttemptPlace, LimitPlace } from "../recording/tape.ts";
import type { Trajectory } from "../trajectory/trajectory.ts";
import type { RolloutOptions } from "./rollout_options.ts";

/** `max_rollout_secs` of an attempt. */
export class TimeLimit {
  readonly #rollout: Pick<RolloutOptions, "clock" | "settings" | "limits">;
  readonly #attempt: AttemptPlace;
  #started_ms = 0;

  constructor(
    rollout: Pick<RolloutOptions, "clock" | "settings" | "limits">,
    { group, member }: AttemptPlace,
  ) {
    this.#rollout = rollout;
    this.#attempt = { group, member };
  }

  /** Starts the time. @param end Called when it is over, unless `stop` aborts first or a recording is replayed. */
  start(end: () => void, stop: AbortSignal): void {
    const { clock, settings: { max_rollout_secs }, limits } = this.#rollout;
    this.#started_ms = clock.monotonic_ms();
    if (max_rollout_secs === 0 || limits?.recorded) return;
    clock.sleep(max_rollout_secs * 1000, stop).then(end, () => {});
  }

  isOver(place: LimitPlace["place"], turns: number): boolean {
    const { clock, settings: { max_rollout_secs }, limits } = this.#rollout;
    if (limits?.recorded) {
      const recorded = limits.recorded(this.#attempt);
      return recorded?.place === place && recorded.turns === turns;
    }
    return max_rollout_secs > 0 && clock.monotonic_ms() - this.#started_ms >= max_rollout_secs * 1000;
  }

  /** The most tokens of a turn: as many as the recorded attempt had when its time ended in it. */
  tokensOf(turn: number): number {
    const recorded = this.#rollout.limits?.recorded?.(this.#attempt);
    return recorded?.place === "generated" && recorded.turns === turn + 1 ? recorded.tokens : Infinity;
  }

  /** The attempt ends because its time is over. */
  note(place: LimitPlace["place"], { turns }: Pick<Trajectory, "turns">): void {
    const last = turns.at(-1), tokens = last ? last.end - last.start : 0;
    this.#rollout.limits?.passed(this.#attempt, { place, turns: turns.length, tokens });
  }
}
