/** The client of the engine: promises over a message port. */

import { errorFromRecord, ServiceError } from "../../core/errors.ts";
import { RpcClient, type RpcPort } from "../../core/rpc.ts";
import type { EngineMethod, EngineMethods, EngineNotice, TokenBlock } from "./protocol.ts";

type Calls = {
  [M in EngineMethod]: (request: EngineMethods[M]["request"]) => Promise<EngineMethods[M]["answer"]>;
};

interface ClientGeneration {
  blocks: TokenBlock[];
  error: Error | null;
  wake: () => void;
}

/**
 * The client's side of the engine's protocol. It pairs requests with answers, and delivers the blocks of a generation to
 * its caller. Several clients can share an engine; each has its own port.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { ScriptedEngine } from "../engine/scripted_engine_fake.ts";
 *
 * // The scripted engine needs no GPU. In a run the port is connected to the engine's worker.
 * const client = new ScriptedEngine().client;
 * const facts = await client.call("probe", { device: "auto", webgpu: "auto" });
 * assert.ok(facts.software);
 * ```
 */
export class EngineClient {
  readonly #rpc: RpcClient<Calls>;
  readonly #generations = new Map<number, ClientGeneration>();
  #next_sequence = 1;

  constructor(port: RpcPort) {
    this.#rpc = new RpcClient(port, (notice) => this.#take(notice as EngineNotice));
  }

  /**
   * Sends a request and waits for its answer.
   *
   * @param signal Aborts the request, if {@link EngineMethods} allows it. The call still waits for the engine.
   * @throws {ServiceError} The engine's error, such as `device_lost`, or the signal's reason.
   */
  call<M extends EngineMethod>(
    method: M,
    request: EngineMethods[M]["request"],
    signal?: AbortSignal,
  ): Promise<EngineMethods[M]["answer"]> {
    // The engine would begin before it gets the abort.
    if (signal?.aborted) return Promise.reject(signal.reason);
    // TypeScript cannot infer that the request has the type of this method.
    return this.#rpc.call(method, request as never, signal) as Promise<EngineMethods[M]["answer"]>;
  }

  /** A sequence number that this client has not used. */
  newSequence(): number {
    return this.#next_sequence++;
  }

  /**
   * Starts a generation and yields its blocks. The last block has `stop` set. Leaving the loop early cancels the
   * generation.
   *
   * @throws {ServiceError} `conflict` while the sequence generates; otherwise the engine's error.
   */
  async *generate(request: EngineMethods["sequence_generate"]["request"]): AsyncGenerator<TokenBlock, void> {
    if (this.#generations.has(request.sequence)) {
      throw new ServiceError(
        "conflict",
        `Cannot generate from sequence ${request.sequence} while it generates`,
      );
    }
    const generation: ClientGeneration = { blocks: [], error: null, wake: () => {} };
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

  /** Fails all pending requests and generations, because the engine has ended. */
  fail(error: ServiceError): void {
    this.#rpc.fail(error);
    for (const generation of this.#generations.values()) {
      generation.error = error;
      generation.wake();
    }
  }

  /** Asks the engine to destroy its device, then closes the port. */
  async close(): Promise<void> {
    await this.call("shutdown", null);
    this.#rpc.close();
  }

  #take(notice: EngineNotice): void {
    const { sequence } = "block" in notice ? notice.block : notice.failed;
    const generation = this.#generations.get(sequence);
    if (!generation) return;
    if ("block" in notice) generation.blocks.push(notice.block);
    else generation.error = errorFromRecord(notice.failed.error);
    generation.wake();
  }
}
