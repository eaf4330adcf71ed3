/** The micro-batches of the scripted engine's requests: each sample is one. Between them a request can be aborted. */

import { errorFromRecord, type ErrorRecord } from "../../core/errors.ts";
import type { ServiceRequest } from "../../core/rpc.ts";
import type { EngineMethod, TrainingSample } from "../protocol/protocol.ts";

export type ReceivedMessage = ServiceRequest | Abort;

interface Abort {
  id: number;
  abort: ErrorRecord;
}

const METHODS: readonly string[] = ["score", "divergence", "train_step"] satisfies EngineMethod[];

export class ScriptedMicroBatches {
  readonly #running = new Map<number, AbortController>();

  /**
   * @param begin Called before each micro-batch of a request, from 1. The micro-batch begins after a promise that it
   * returns, unless the request was aborted.
   */
  constructor(
    readonly begin: (method: EngineMethod, n: number, signal: AbortSignal) => void | Promise<void> = () => {},
  ) {}

  /** Aborts a request, also one whose micro-batches have not begun. */
  abort({ id, abort }: Abort): void {
    this.#controller(id).abort(errorFromRecord(abort));
  }

  /** Goes through a request's micro-batches; null when such requests have none. */
  run({ id, method, request }: ServiceRequest): Promise<void> | null {
    if (!METHODS.includes(method)) return null;
    const { samples } = request as { samples: TrainingSample[] }, { signal } = this.#controller(id);
    return this.#run(method as EngineMethod, samples.length, signal)
      .finally(() => this.#running.delete(id));
  }

  #controller(id: number): AbortController {
    const controller = this.#running.get(id) ?? new AbortController();
    this.#running.set(id, controller);
    return controller;
  }

  async #run(method: EngineMethod, count: number, signal: AbortSignal): Promise<void> {
    for (let n = 1; n <= count; n++) {
      await this.begin(method, n, signal);
      signal.throwIfAborted();
    }
  }
}
