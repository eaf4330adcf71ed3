/** Calls over a message port: a request has one answer, and the caller can give it up. */

import { errorFromRecord, type ErrorRecord, errorRecord, type ServiceError } from "../core/errors.ts";

/** What the two ends need of a `MessagePort`. */
export interface RpcPort {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent) => void): void;
  start?(): void;
  close?(): void;
}

type Handler = (request: never, signal: AbortSignal) => Promise<unknown>;

/** Methods of a service by name. */
export type RpcMethods = Record<string, Handler>;

type RequestOf<H> = H extends (request: infer R, signal: AbortSignal) => Promise<unknown> ? R : never;
type AnswerOf<H> = H extends (request: never, signal: AbortSignal) => Promise<infer A> ? A : never;

type CallerMessage = { id: number; method: string; request: unknown } | { id: number; abort: ErrorRecord };
type ServiceMessage = { id: number; answer: unknown } | { id: number; error: ErrorRecord };

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
    methods[method]!(request as never, controller.signal).then(
      (answer) => answered({ id, answer }),
      (error) => answered({ id, error: errorRecord(error) }),
    );
  });
  port.start?.();
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

/** The caller's end. `M` is the type of the methods that the other end serves. */
export class RpcClient<M extends { [name in keyof M]: Handler }> {
  readonly #port: RpcPort;
  readonly #waiting = new Map<number, Waiting>();
  #next_id = 1;
  #failure: Error | null = null;

  constructor(port: RpcPort) {
    this.#port = port;
    port.addEventListener("message", ({ data }: MessageEvent<ServiceMessage>) => {
      const waiting = this.#waiting.get(data.id);
      this.#waiting.delete(data.id);
      if ("error" in data) waiting?.reject(errorFromRecord(data.error));
      else waiting?.resolve(data.answer);
    });
    port.start?.();
  }

  /** Sends a request; an aborted one still waits for the answer of the other end, which clears up first. */
  call<K extends keyof M & string>(
    method: K,
    request: RequestOf<M[K]>,
    signal?: AbortSignal,
  ): Promise<AnswerOf<M[K]>> {
    if (this.#failure) return Promise.reject(this.#failure);
    const id = this.#next_id++;
    const answered = new Promise<AnswerOf<M[K]>>((resolve, reject) => {
      this.#waiting.set(id, { resolve: resolve as (value: unknown) => void, reject });
      this.#port.postMessage({ id, method, request });
    });
    if (!signal) return answered;
    const abort = () => this.#port.postMessage({ id, abort: errorRecord(signal.reason) });
    if (signal.aborted) abort();
    else signal.addEventListener("abort", abort, { once: true });
    return answered.finally(() => signal.removeEventListener("abort", abort));
  }

  /** Fails everything that waits, and all that is called from now on: the other end is gone. */
  fail(error: ServiceError): void {
    this.#failure = error;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }

  close(): void {
    this.#port.close?.();
  }
}
