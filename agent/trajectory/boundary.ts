/** The boundary between the run and code that it does not control. A failure gets its cause here, once. */

import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Failure } from "./trajectory.ts";

/** `failed`: it threw; `timeout`: its own limit passed; `cancelled`: the caller aborted. */
export type BoundaryBreak = "failed" | "timeout" | "cancelled";

/** The error of {@link boundary}. */
export class BoundaryFailure extends Error {
  constructor(readonly failure: Failure, readonly kind: BoundaryBreak, options?: ErrorOptions) {
    super(failure.message, options);
    this.name = "BoundaryFailure";
  }

  /** Whether another run may not have it: a limit passed, or the cause says so (`details.transient`). */
  get is_transient(): boolean {
    const { cause } = this;
    return this.kind === "timeout" || (cause instanceof ServiceError && cause.details.transient === true);
  }
}

export interface BoundaryOptions {
  name: Failure["boundary"];
  clock: Clock;
  /** Null: no limit of its own. */
  timeout_ms: number | null;
  signal: AbortSignal;
}

/**
 * The failure of work that threw. One from an inner boundary is kept; an `infrastructure_failed` belongs to the
 * infrastructure, whatever it broke.
 */
export function brokenBy(name: Failure["boundary"], error: unknown): BoundaryFailure {
  if (error instanceof BoundaryFailure) return error;
  const is_infrastructure = error instanceof ServiceError && error.code === "infrastructure_failed";
  const message = error instanceof Error ? error.message : String(error);
  const failure = { boundary: is_infrastructure ? "infrastructure" as const : name, message };
  return new BoundaryFailure(failure, "failed", { cause: error });
}

/**
 * Runs work that may hang, throw anything or ignore its signal. Settles when the work does, at the time limit, or when
 * the caller's signal aborts, whichever is first. Abandoned work continues without effect; its signal's reason is the
 * failure.
 *
 * @throws {BoundaryFailure} Always this type, see {@link brokenBy}.
 */
export async function boundary<T>(
  options: BoundaryOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { name, clock, timeout_ms, signal } = options;
  const inner = new AbortController();
  const stop = new AbortController();
  const broken = (kind: BoundaryBreak, message: string, cause?: unknown) =>
    new BoundaryFailure({ boundary: name, message }, kind, { cause });
  const given_up = new Promise<never>((_, reject) => {
    const abort = () => reject(broken("cancelled", `the ${name} was cancelled`, signal.reason));
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true, signal: stop.signal });
    if (timeout_ms === null) return;
    const late = () => reject(broken("timeout", `the ${name} gave no answer within ${timeout_ms / 1000} s`));
    clock.sleep(timeout_ms, stop.signal).then(late, () => {});
  });
  given_up.catch((failure) => inner.abort(failure));
  try {
    if (signal.aborted) return await given_up;
    const working = (async () => await work(inner.signal))();
    working.catch(() => {});
    return await Promise.race([working, given_up]);
  } catch (error) {
    throw brokenBy(name, error);
  } finally {
    stop.abort();
  }
}
