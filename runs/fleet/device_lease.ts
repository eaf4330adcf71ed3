/**
 * The device lease: who may use the server's device. It is lent to up to `max_concurrent_runs` runs, or to one probe (an
 * evaluation, a generation or a calibration that no live run answers), or to one serving process.
 *
 * The first column says who has the device, the others what happens to a new request for it:
 *
 * | the holder    | a run                           | a probe or serving |
 * | ------------- | ------------------------------- | ------------------ |
 * | runs          | takes a free slot, else waits   | is refused         |
 * | a probe       | waits                           | is refused         |
 * | serving       | takes it when serving has ended | is refused         |
 * | other program | waits, unless it serves a model | is refused         |
 *
 * A run whose configuration asks for a software adapter does not wait for other programs.
 *
 * A run that waits is queued, or refused where the queue is full. A refusal is `device_unavailable` with
 * `details.retry_after_seconds`, which the API answers as `device-busy`. Live runs answer requests about themselves
 * without the lease. Other programs on this machine are those that `core/device_lock.ts` lists. An `svc train` that waits
 * for the device gets it from a serving process, as a run does.
 *
 * For a probe or a serving process:
 *
 * ```ts
 * using loan = fleet.device.lend("serving"); // throws when it is taken
 * // Start the process. When loan.wanted aborts, accept no new work, finish the work in progress, and end the process.
 * // When loan.overdue aborts, kill it. Release the loan only when the process is gone: the next one needs its memory.
 * ```
 */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { Clock } from "../../core/clock.ts";
import { type DeviceHolder, holderText, RETRY_AFTER_SECONDS } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";

/** The time for a serving process to finish its answers when a run wants the device. */
export const DRAIN_MS = 10_000;

/** How often a server checks whether another program has released the device, or waits for it. */
export const OTHERS_POLL_MS = 1000;

type Borrower = "probe" | "serving";

/** The device, lent to a probe or a serving process. */
export interface DeviceLoan extends Disposable {
  /** Aborts when the holder must finish: a run wants the device, or the server ends. */
  readonly wanted: AbortSignal;
  /** Aborts {@link DRAIN_MS} after `wanted`, or earlier when the server ends: the process must be killed. */
  readonly overdue: AbortSignal;
  /** Returns the device; a second call does nothing. `using` does the same. */
  release(): void;
}

export interface DeviceLeaseOptions {
  /** Runs that train at once. */
  runs: number;
  clock: Clock;
  /** Called when a holder that is no run has returned the device: queued runs may start. */
  returned: () => void;
  /** The processes of other programs that have the device or wait for it; absent: none. */
  others?: (() => readonly DeviceHolder[]) | undefined;
}

/** Whether a process takes the machine's device lock. Any number of processes may use a software adapter without it. */
export function needsLock({ device }: Pick<ResolvedConfig["model"], "device">): boolean {
  return device !== "software";
}

/** The slots of runs, by run, and the loan to another process. */
export class DeviceLease {
  readonly #options: DeviceLeaseOptions;
  readonly #runs = new Map<string, PromiseWithResolvers<void>>();
  #loan: Loan | null = null;
  readonly #closed = new AbortController();
  #is_watching = false;

  constructor(options: DeviceLeaseOptions) {
    this.#options = options;
  }

  /**
   * Whether a run could get a slot now. It could while a serving process has the device, which then has to return it.
   *
   * @param needs_lock See {@link needsLock}.
   */
  hasSlot(needs_lock = true): boolean {
    const is_free = !this.#is_closed && this.#runs.size < this.#options.runs;
    return is_free && this.#loan?.borrower !== "probe" && (!needs_lock || this.#blockingHolder() === null);
  }

  get #is_closed(): boolean {
    return this.#closed.signal.aborted;
  }

  #others(): readonly DeviceHolder[] {
    return this.#options.others?.() ?? [];
  }

  /** The program that has the device and does not release it for a run; null when there is none. */
  #blockingHolder(): DeviceHolder | null {
    return this.#others().find(({ waits, use }) => !waits && use !== "serving") ?? null;
  }

  /** The error for a run when all slots are taken and the queue is full. */
  noSlotError(needs_lock: boolean): ServiceError {
    const holder = needs_lock ? this.#blockingHolder() : null;
    const reason = holder ? `${holderText(holder)}, has the device` : "every slot is taken";
    return busy(`Cannot start the run: ${reason}; try again later`);
  }

  /** Calls `returned` when the program that has the device now has released it. Does nothing when there is none. */
  awaitOthers(): void {
    if (this.#is_watching || this.#blockingHolder() === null) return;
    this.#is_watching = true;
    const { clock, returned } = this.#options, { signal } = this.#closed;
    (async () => {
      while (this.#blockingHolder() !== null) await clock.sleep(OTHERS_POLL_MS, signal);
      this.#is_watching = false;
      returned();
    })().catch(() => {});
  }

  has(run: string): boolean {
    return this.#runs.has(run);
  }

  /**
   * Gives a run a slot, even above the number of slots: a process of an earlier server uses the device in any case. A
   * serving process is asked to end; the run's process starts after {@link ready}.
   */
  take(run: string): void {
    this.#runs.set(run, Promise.withResolvers());
    this.#loan?.want(`Cannot go on: the run ${run} takes the device`);
  }

  /** Resolves when the process of a run with a slot may start: neither a probe nor serving has the device. */
  async ready(): Promise<void> {
    await this.#loan?.released;
  }

  /** @returns Whether the run had a slot. */
  free(run: string): boolean {
    const taken = this.#runs.get(run);
    this.#runs.delete(run);
    taken?.resolve();
    return taken !== undefined;
  }

  /** Resolves when the run has no slot. */
  async freed(run: string): Promise<void> {
    await this.#runs.get(run)?.promise;
  }

  /**
   * Lends the device.
   *
   * @param needs_lock See {@link needsLock}.
   * @throws {ServiceError} `device_unavailable` when it is taken or the server ends.
   */
  lend(borrower: Borrower, needs_lock = true): DeviceLoan {
    const holder = this.#is_closed
      ? "the server ends"
      : this.#runs.size > 0
      ? "runs are training on it"
      : this.#loan
      ? HOLDERS[this.#loan.borrower]
      : needs_lock
      ? this.#otherHolderText()
      : null;
    if (holder !== null) throw busy(`Cannot use the device: ${holder}; try again later`);
    const returned = () => {
      this.#loan = null;
      this.#options.returned();
    };
    const loan = this.#loan = new Loan(borrower, { clock: this.#options.clock, returned });
    if (borrower === "serving" && needs_lock && this.#options.others) this.#yield(loan);
    return loan;
  }

  /** The program that has the device or waits for it, as text: its run has priority over probes and serving. */
  #otherHolderText(): string | null {
    const [other] = this.#others();
    return other ? `${holderText(other)}, ${other.waits ? "waits for it" : "has it"}` : null;
  }

  /** Asks for a loan back when a run of another program waits for the device. */
  async #yield(loan: Loan): Promise<void> {
    const ended = AbortSignal.any([loan.wanted, loan.over, this.#closed.signal]);
    while (!ended.aborted) {
      await this.#options.clock.sleep(OTHERS_POLL_MS, ended).catch(() => {});
      const waiting = this.#others().find(({ waits }) => waits);
      if (waiting && !ended.aborted) loan.want(`Cannot go on: ${holderText(waiting)}, waits for the device`);
    }
  }

  /** Lends nothing more, and asks for the loan back. */
  close(): void {
    this.#closed.abort();
    this.#loan?.want("Cannot go on: the server ends");
  }

  /** Makes the loan overdue now, so that its process is killed. */
  hurry(): void {
    this.#loan?.hurry();
  }

  /** Resolves when the slots and the loan of this moment have been returned. */
  async allFree(): Promise<void> {
    await Promise.all([...this.#runs.values()].map(({ promise }) => promise));
    await this.#loan?.released;
  }
}

const HOLDERS: Record<Borrower, string> = {
  probe: "it answers another request",
  serving: "it serves a model",
};

/** The error for a caller that finds the device taken. */
export function busy(message: string): ServiceError {
  return new ServiceError("device_unavailable", message, { retry_after_seconds: RETRY_AFTER_SECONDS });
}

class Loan implements DeviceLoan {
  readonly #wanted = new AbortController();
  readonly #overdue = new AbortController();
  readonly #released = Promise.withResolvers<void>();
  readonly #timer = new AbortController();
  readonly #over = new AbortController();
  readonly #options: Pick<DeviceLeaseOptions, "clock" | "returned">;
  #is_released = false;

  constructor(readonly borrower: Borrower, options: Pick<DeviceLeaseOptions, "clock" | "returned">) {
    this.#options = options;
  }

  get wanted(): AbortSignal {
    return this.#wanted.signal;
  }

  get overdue(): AbortSignal {
    return this.#overdue.signal;
  }

  get released(): Promise<void> {
    return this.#released.promise;
  }

  /** Aborts when the loan is released. */
  get over(): AbortSignal {
    return this.#over.signal;
  }

  want(reason: string): void {
    if (this.wanted.aborted) return;
    this.#wanted.abort(busy(`${reason}; try again later`));
    this.#options.clock.sleep(DRAIN_MS, this.#timer.signal).then(() => this.hurry(), () => {});
  }

  hurry(): void {
    this.#timer.abort();
    this.#overdue.abort(this.wanted.reason);
  }

  release(): void {
    if (this.#is_released) return;
    this.#is_released = true;
    this.#timer.abort();
    this.#over.abort();
    this.#released.resolve();
    this.#options.returned();
  }

  [Symbol.dispose](): void {
    this.release();
  }
}
