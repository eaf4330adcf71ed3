/** The containers of a run: at most `max_live`, started ahead of need. */

import { ServiceError } from "../../../core/errors.ts";
import type { RunningContainer } from "./container.ts";

/** Containers that start at the same time; more would only delay each other. */
export const MAX_STARTING = 4;

/** The time for cleaning a container for another attempt; a slower one is ended. */
export const CLEAN_TIMEOUT_MS = 10_000;

export interface PoolOptions {
  max_live: number;
  reuse: "never" | "workspace";
  start(signal: AbortSignal): Promise<RunningContainer>;
}

interface Waiting {
  resolve(container: RunningContainer): void;
  reject(reason: unknown): void;
}

export class ContainerPool {
  /** Containers that start, are ready, are used or end. */
  #live = 0;
  #starting = 0;
  readonly #ready: RunningContainer[] = [];
  readonly #used = new Set<RunningContainer>();
  #waiting: Waiting[] = [];
  /** Starts and ends that are under way. */
  readonly #work = new Set<Promise<void>>();
  readonly #life = new AbortController();
  /** The last start failed: none is made ahead before the next attempt asks. */
  #is_failing = false;

  constructor(readonly options: PoolOptions) {}

  /** Whether its containers were ended by {@link close}. */
  get is_closed(): boolean {
    return this.#life.signal.aborted;
  }

  /** How many there are, those that start or end included. */
  get live(): number {
    return this.#live;
  }

  /**
   * A container for one attempt, which must be released.
   *
   * @param first Whether it goes before others that wait: an attempt's second container does.
   * @throws {ServiceError} `infrastructure_failed` when none can be started; the signal's reason.
   */
  async acquire(signal: AbortSignal, { first = false } = {}): Promise<RunningContainer> {
    const aborted = AbortSignal.any([signal, this.#life.signal]);
    aborted.throwIfAborted();
    this.#is_failing = false;
    const container = await new Promise<RunningContainer>((resolve, reject) => {
      const abort = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        reject(aborted.reason);
      };
      const settled = <T>(then: (value: T) => void) => (value: T) => {
        aborted.removeEventListener("abort", abort);
        then(value);
      };
      const waiting: Waiting = { resolve: settled(resolve), reject: settled(reject) };
      aborted.addEventListener("abort", abort, { once: true });
      if (first) this.#waiting.unshift(waiting);
      else this.#waiting.push(waiting);
      this.#serve();
    });
    return container;
  }

  /** Takes a container back: it is cleaned for another attempt, or ended. Never throws. */
  release(container: RunningContainer): void {
    if (!this.#used.delete(container)) return;
    this.#track(this.#recycle(container));
  }

  async #recycle(container: RunningContainer): Promise<void> {
    const is_clean = this.options.reuse === "workspace" && !this.#life.signal.aborted &&
      await container.clean(CLEAN_TIMEOUT_MS);
    if (is_clean && !this.#life.signal.aborted) this.#ready.push(container);
    else {
      await container.end();
      this.#live--;
    }
    this.#serve();
  }

  /** Ends all containers, those that are used too. Never throws; a second call waits for the same. */
  async close(): Promise<void> {
    this.#life.abort(new ServiceError("cancelled", "Cannot go on: the containers are closed"));
    for (const container of this.#used) this.release(container);
    for (const container of this.#ready.splice(0)) this.#track(this.#end(container));
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  async #end(container: RunningContainer): Promise<void> {
    await container.end();
    this.#live--;
  }

  /** Gives ready containers to those that wait, and starts further ones. */
  #serve(): void {
    if (this.#life.signal.aborted) {
      for (const container of this.#ready.splice(0)) this.#track(this.#end(container));
      return;
    }
    while (this.#waiting.length > 0 && this.#ready.length > 0) {
      const container = this.#ready.pop()!;
      if (!container.is_usable) {
        this.#track(this.#end(container).then(() => this.#serve()));
        continue;
      }
      this.#used.add(container);
      this.#waiting.shift()!.resolve(container);
    }
    const may_start = () => this.#live < this.options.max_live && this.#starting < MAX_STARTING;
    while (may_start() && !(this.#is_failing && this.#starting >= this.#waiting.length)) {
      this.#live++;
      this.#starting++;
      this.#track(this.#start());
    }
  }

  async #start(): Promise<void> {
    try {
      this.#ready.push(await this.options.start(this.#life.signal));
      this.#starting--;
    } catch (error) {
      this.#live--;
      this.#starting--;
      this.#is_failing = true;
      this.#waiting.shift()?.reject(error);
    }
    this.#serve();
  }

  #track(work: Promise<void>): void {
    const tracked = work.finally(() => this.#work.delete(tracked));
    this.#work.add(tracked);
  }
}
