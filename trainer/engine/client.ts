/** The engine as its callers see it: promises over a message port. */

import { errorFromRecord, ServiceError } from "../../core/errors.ts";
import type { EngineMessage, EngineMethod, EngineMethods, TokenBlock } from "./protocol.ts";

/** What a client needs of a `MessagePort` or a worker. */
export interface EnginePort {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent<EngineMessage>) => void): void;
  start?(): void;
  close?(): void;
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

interface Generation {
  blocks: TokenBlock[];
  error: Error | null;
  wake: () => void;
}

export class EngineClient {
  readonly #port: EnginePort;
  readonly #waiting = new Map<number, Waiting>();
  readonly #generations = new Map<number, Generation>();
  #next_id = 1;
  #next_sequence = 1;
  #lost: Error | null = null;

  constructor(port: EnginePort) {
    this.#port = port;
    port.addEventListener("message", (event) => this.#receive(event.data));
    port.start?.();
  }

  /** Sends a request and waits for its answer. @throws {ServiceError} What the engine refused, or `device_lost`. */
  call<M extends EngineMethod>(
    method: M,
    request: EngineMethods[M]["request"],
  ): Promise<EngineMethods[M]["answer"]> {
    if (this.#lost) return Promise.reject(this.#lost);
    const id = this.#next_id++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#port.postMessage({ id, method, request });
    });
  }

  /** A sequence number that this client has not used. */
  newSequence(): number {
    return this.#next_sequence++;
  }

  /**
   * Starts a generation and yields its blocks; the last one has `stop` set. Leaving the loop early cancels it.
   *
   * @throws {ServiceError} When the engine refuses or fails.
   */
  async *generate(request: EngineMethods["sequence_generate"]["request"]): AsyncGenerator<TokenBlock, void> {
    if (this.#generations.has(request.sequence)) {
      throw new ServiceError(
        "conflict",
        `Cannot generate from sequence ${request.sequence} while it generates`,
      );
    }
    const generation: Generation = { blocks: [], error: null, wake: () => {} };
    this.#generations.set(request.sequence, generation);
    let ended = false;
    try {
      await this.call("sequence_generate", request);
      while (!ended) {
        while (generation.blocks.length === 0 && !generation.error) {
          await new Promise<void>((resolve) => generation.wake = resolve);
        }
        if (generation.error) {
          ended = true;
          throw generation.error;
        }
        const block = generation.blocks.shift()!;
        ended = block.stop !== null;
        yield block;
      }
    } catch (error) {
      ended = true;
      throw error;
    } finally {
      this.#generations.delete(request.sequence);
      if (!ended) await this.call("sequence_cancel", { sequence: request.sequence });
    }
  }

  /** Fails everything that waits: the engine is gone. */
  fail(error: ServiceError): void {
    this.#lost = error;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
    for (const generation of this.#generations.values()) {
      generation.error = error;
      generation.wake();
    }
  }

  /** Asks the engine to destroy its device, then closes the port. */
  async close(): Promise<void> {
    await this.call("shutdown", null);
    this.#port.close?.();
  }

  #receive(message: EngineMessage): void {
    if ("block" in message || "failed" in message) {
      const generation = this.#generations.get(
        "block" in message ? message.block.sequence : message.failed.sequence,
      );
      if (!generation) return;
      if ("block" in message) generation.blocks.push(message.block);
      else generation.error = errorFromRecord(message.failed.error);
      generation.wake();
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ("error" in message) waiting?.reject(errorFromRecord(message.error));
    else waiting?.resolve(message.answer);
  }
}
