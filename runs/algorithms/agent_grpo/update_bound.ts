/** Limits how far one update moves the policy, whatever its learning rate. */

import type { EngineClient } from "../../../trainer/protocol/client.ts";
import type { TrainingSample } from "../../../trainer/protocol/protocol.ts";

/** The engine's name of the policy before the update. */
const BEFORE_UPDATE = "before_update";

/** Each attempt aims below the bound by this factor, so that it rarely needs another. */
const AIM = 0.9;

/** Limits of the factor by which an attempt shortens the step: far from the start the KL is not a parabola. */
const SHORTEST = 0.1, LONGEST = 0.9;

/** After this many attempts the update is undone. */
export const MAX_TRIES = 8;

export interface BoundedUpdate {
  /** KL(before‖after) of the update with its current scale, in nats per token. */
  kl: number;
  /** The KL of the full step. */
  whole_kl: number;
  /** The share of the step that was kept; 1 is all of it. */
  scale: number;
}

export interface UpdateBoundOptions {
  engine: EngineClient;
  /** The engine's name of the policy. */
  adapter: string;
  /** The largest KL(before‖after) of an update, in nats per token; above 0. */
  max_update_kl: number;
}

/**
 * A trust region: when KL(before‖after) exceeds the bound, the adapter moves back along the line to its starting point
 * until it does not. The KL is the mean, over the positions of the update's own samples, of the divergence over the
 * full vocabulary. An estimate from the sampled tokens alone jumps when a rare token was sampled.
 *
 * In an update's first step the ratio is 1, so no clip acts, and Adam's step does not depend on the size of the
 * gradient. Without a bound the learning rate alone determines the size of an update. The optimiser's moments stay
 * those of the full step.
 *
 * @source Schulman et al., "Trust Region Policy Optimization" (2015), appendix C: a line search on the KL constraint.
 */
export class UpdateBound {
  #is_open = false;

  constructor(readonly options: UpdateBoundOptions) {}

  /** Copies the policy. Call it before the update's first step. */
  async begin(): Promise<void> {
    const { engine, adapter } = this.options;
    if (this.#is_open) {
      await engine.call("adapter_interpolate", { adapter: BEFORE_UPDATE, from: adapter, scale: 0 });
      return;
    }
    await engine.call("adapter_open", { adapter: BEFORE_UPDATE, source: { type: "copy", adapter } });
    this.#is_open = true;
  }

  /**
   * Shortens the steps since {@link begin} if they exceed the bound.
   *
   * @param samples The update's training samples.
   * @param signal Ends it at any of its attempts.
   */
  async apply(samples: TrainingSample[], signal: AbortSignal): Promise<BoundedUpdate> {
    const { engine, adapter, max_update_kl } = this.options;
    const measure = async () => {
      const request = { adapter, from: BEFORE_UPDATE, samples };
      return meanOf((await engine.call("divergence", request, signal)).divergences);
    };
    const whole_kl = await measure();
    let kl = whole_kl, scale = 1;
    for (let tries = 1; !(kl <= max_update_kl); tries++) {
      const factor = tries > MAX_TRIES ? 0 : shorter(kl, max_update_kl);
      await engine.call("adapter_interpolate", { adapter, from: BEFORE_UPDATE, scale: factor });
      scale *= factor;
      kl = factor === 0 ? 0 : await measure();
    }
    return { kl, whole_kl, scale };
  }
}

/** The share of a step whose KL would be just below the bound if the KL grew with the square of the step. */
function shorter(kl: number, max_update_kl: number): number {
  const wanted = Math.sqrt(AIM * max_update_kl / kl);
  return Number.isFinite(wanted) ? Math.max(SHORTEST, Math.min(LONGEST, wanted)) : SHORTEST;
}

function meanOf(rows: readonly Float32Array[]): number {
  let sum = 0, count = 0;
  for (const row of rows) {
    for (const value of row) sum += value;
    count += row.length;
  }
  return sum / count;
}
