/**
 * Calls over a message port. A request has one answer, optionally items before it, and can be aborted. A message
 * without an id is a notice, which the service sends without a request.
 */

import { streamed } from "./async_queue.ts";
import { errorFromRecord, type ErrorRecord, errorRecord, ServiceError } from "./errors.ts";
import { PendingRequests } from "./pending_requests.ts";

/** The part of a `MessagePort` that both ends use. */
export interface RpcPort {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
  start?(): void;
  close?(): void;
}

type Generating = AsyncGenerator<unknown, unknown, void>;
type Handler = (request: never, signal: AbortSignal) => Promise<unknown> | Generating;

/** Methods of a service by name: yielded values are items, the returned value is the answer. */
export type RpcMethods = Record<string, Handler>;

type RequestOf<H> = H extends (request: infer R, signal: AbortSignal) => unknown ? R : never;
type AnswerOf<H> = H extends (request: never, signal: AbortSignal) => Promise<infer A> ? A
  : H extends (request: never, signal: AbortSignal) => AsyncGenerator<unknown, infer A, void> ? A
  : never;
type ItemOf<H> = H extends (request: never, signal: AbortSignal) => AsyncGenerator<infer I, unknown, void> ? I
  : never;

/** A call in the form that crosses the port. */
export interface ServiceRequest {
  id: number;
  method: string;
  request: unknown;
}

type CallerMessage = ServiceRequest | { id: number; abort: ErrorRecord };

/** A message from the service to the caller in answer to a request. */
export type ServiceMessage =
  | { id: number; answer: unknown }
  | { id: number; error: ErrorRecord }
  | { id: number; item: unknown };

/** Answers the calls that arrive on a port. */
export function serveRpc(port: RpcPort, methods: RpcMethods): void {
  const running = new Map<number, AbortController>();
  port.addEventListener("message", ({ data }: MessageEvent<CallerMessage>) => {
    if ("abort" in data) return running.get(data.id)?.abort(errorFromRecord(data.abort));
    const { id, method, request } = data, controller = new AbortController();
    running.set(id, controller);
    const answered = (message: ServiceMessage) => {
      running.delete(id);
      port.postMessage(message);
    };
    const sendItem = (item: unknown) => port.postMessage({ id, item } satisfies ServiceMessage);
    drain(methods[method]!(request as never, controller.signal), sendItem).then(
      (answer) => answered({ id, answer }),
      (error) => answered({ id, error: errorRecord(error) }),
    );
  });
  port.start?.();
}

async function drain(work: Promise<unknown> | Generating, sendItem: (item: unknown) => void) {
  if (!(Symbol.asyncIterator in work)) return await work;
  while (true) {
    const { done, value } = await work.next();
    if (done) return value;
    sendItem(value);
  }
}

interface Waiting {
  take(item: unknown): void;
  resolve(value: unknown): void;
  reject(error: Error): void;
}

interface CallOptions {
  method: string;
  request: unknown;
  signal: AbortSignal | undefined;
  take(item: unknown): void;
}

/**
 * The caller's end. `M` is the type of the methods that the other end serves.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { ServiceError } from "./errors.ts";
 * const { port1, port2 } = new MessageChannel();
 * serveRpc(port1, {
 *   double: (x) => Promise.resolve(2 * x),
 *   refuse: () => Promise.reject(new ServiceError("conflict", "Cannot double: busy")),
 * });
 * const client = new RpcClient(port2);
 * assert.equal(await client.call("double", 21), 42);
 * await assert.rejects(client.call("refuse", null), { message: "Cannot double: busy" });
 * port2.close();
 * ```
 */
export class RpcClient<M extends { [name in keyof M]: Handler }> {
  readonly #port: RpcPort;
  readonly #pending = new PendingRequests<Waiting>();
  #failure: Error | null = null;

  /** @param notice Receives the service's notices. */
  constructor(port: RpcPort, notice: (message: unknown) => void = () => {}) {
    this.#port = port;
    port.addEventListener("message", ({ data }: MessageEvent<ServiceMessage>) => {
      if (!("id" in data)) return notice(data);
      if ("item" in data) return this.#pending.get(data.id)?.take(data.item);
      const waiting = this.#pending.take(data.id);
      if ("error" in data) waiting?.reject(errorFromRecord(data.error));
      else waiting?.resolve(data.answer);
    });
    port.start?.();
  }

  /** The number of calls without an answer. */
  get waiting(): number {
    return this.#pending.size;
  }

  /** Sends a request. An aborted call still waits for the other end's answer, because that end cleans up first. */
  call<K extends keyof M & string>(
    method: K,
    request: RequestOf<M[K]>,
    signal?: AbortSignal,
  ): Promise<AnswerOf<M[K]>> {
    return this.#call({ method, request, signal, take: () => {} }) as Promise<AnswerOf<M[K]>>;
  }

  /**
   * Like {@link call}, but yields the items as they arrive. Leaving the iteration early aborts the request and waits
   * for its end.
   */
  async *stream<K extends keyof M & string>(
    method: K,
    request: RequestOf<M[K]>,
    signal: AbortSignal,
  ): AsyncGenerator<ItemOf<M[K]>, AnswerOf<M[K]>, void> {
    return yield* streamed<ItemOf<M[K]>, AnswerOf<M[K]>>((push, either) => {
      const take = (item: unknown) => push(item as ItemOf<M[K]>);
      return this.#call({ method, request, signal: either, take }) as Promise<AnswerOf<M[K]>>;
    }, signal);
  }

  #call({ method, request, signal, take }: CallOptions): Promise<unknown> {
    if (this.#failure) return Promise.reject(this.#failure);
    let id = 0;
    // A request that cannot cross the port fails its own call.
    const answered = new Promise<unknown>((resolve, reject) => {
      id = this.#pending.add({ resolve, reject, take });
      this.#port.postMessage({ id, method, request });
    });
    if (!signal) return answered;
    const abort = () => this.#port.postMessage({ id, abort: errorRecord(signal.reason) });
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return answered.finally(() => signal.removeEventListener("abort", abort));
  }

  /** Fails all pending calls and all later ones: the other end is gone. */
  fail(error: ServiceError): void {
    this.#failure = error;
    for (const waiting of this.#pending.takeAll()) waiting.reject(error);
  }

  close(): void {
    this.#port.close?.();
  }
}
