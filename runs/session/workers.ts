/**
 * The two workers of a run process. Both start from the program's entry file by the name `engine` or `agent`, with the
 * permissions that each needs. A worker receives ports. A worker that used WebGPU is never terminated: its engine
 * destroys the device, then it closes itself.
 */

import { ServiceError } from "../../core/errors.ts";
import { startThread, threadGone } from "../../core/worker_thread.ts";
import { EngineClient } from "../../trainer/protocol/client.ts";

type WorkerName = "engine" | "agent";

/** Messages to a worker itself; everything else uses ports. */
type WorkerMessage = { connect: unknown } | { close: true };

export interface StartWorkerOptions {
  entry_url: string;
  permissions: Deno.PermissionOptionsObject;
}

/** A started worker. */
export interface WorkerHandle {
  /** Opens a new port to the worker, and sends `data` and the other `transferred` ports with its end. */
  connect(data?: unknown, transferred?: MessagePort[]): MessagePort;
  /** Resolves with the reason when the worker fails outside of any request. */
  readonly failed: Promise<ServiceError>;
  /** Asks the worker to close itself. Resolves when its thread is gone or the time is up. */
  close(timeout_ms?: number): Promise<void>;
}

/** The time for a worker to close, and for an engine to destroy its device, before the process continues without it. */
const SHUTDOWN_TIMEOUT_MS = 5000;

export function startWorker(name: WorkerName, { entry_url, permissions }: StartWorkerOptions): WorkerHandle {
  const { worker, thread } = startThread(() =>
    new Worker(entry_url, { type: "module", name, deno: { permissions } })
  );
  const failed = Promise.withResolvers<ServiceError>();
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    failed.resolve(
      new ServiceError("internal", `Cannot go on: the ${name} worker failed (${event.message})`),
    );
  });
  return {
    failed: failed.promise,
    connect(data = null, transferred = []) {
      const { port1, port2 } = new MessageChannel();
      worker.postMessage({ connect: data } satisfies WorkerMessage, [port1, ...transferred]);
      return port2;
    },
    async close(timeout_ms = SHUTDOWN_TIMEOUT_MS) {
      worker.postMessage({ close: true } satisfies WorkerMessage);
      await threadGone(thread, timeout_ms);
    },
  };
}

/**
 * Serves a port in a worker: `others` are the ports that came with it. May return a function that releases what the
 * service holds.
 */
type ServePort = (
  port: MessagePort,
  data: unknown,
  others: MessagePort[],
) => (() => Promise<void>) | void;

/**
 * In a worker: passes every port from the supervisor to `serve`. On request releases what the services hold, then
 * closes the worker.
 */
export function acceptPorts(serve: ServePort): void {
  const scope = globalThis as unknown as Worker & { close(): void };
  const releases: (() => Promise<void>)[] = [];
  scope.addEventListener("message", ({ data, ports }: MessageEvent<WorkerMessage>) => {
    if ("close" in data) {
      Promise.allSettled(releases.map((release) => release())).then(() => scope.close());
      return;
    }
    const [port, ...others] = ports;
    const release = serve(port!, data.connect, others);
    if (release) releases.push(release);
  });
}

/** The name of this worker; null on the main thread. */
export function workerName(): WorkerName | null {
  const { name } = globalThis as { name?: string };
  const is_worker = "WorkerGlobalScope" in globalThis;
  return is_worker && (name === "engine" || name === "agent") ? name : null;
}

/** The supervisor's handle of the engine worker. */
export interface EngineHandle {
  client: EngineClient;
  /** Resolves with the reason when the worker fails outside of any request: its ports no longer answer. */
  readonly failed: Promise<ServiceError>;
  /** A port for another client, to be transferred to that client's worker. */
  port(): MessagePort;
  /** Destroys the device, closes the worker and waits for its thread. A failed engine only gets the request. */
  close(): Promise<void>;
}

/** Starts an engine in a worker with these permissions; no model is loaded. */
export function startEngine(options: StartWorkerOptions): EngineHandle {
  const worker = startWorker("engine", options);
  const port = worker.connect();
  const client = new EngineClient(port);
  worker.failed.then((error) => client.fail(error));
  return {
    client,
    failed: worker.failed,
    port: () => worker.connect(),
    async close() {
      let timer: ReturnType<typeof setTimeout> | undefined;
      const late = new Promise<"late">((resolve) => {
        timer = setTimeout(() => resolve("late"), SHUTDOWN_TIMEOUT_MS);
      });
      // A lost device cannot answer, and there is nothing left to destroy.
      const answered = await Promise.race([client.close().catch(() => {}), late]);
      clearTimeout(timer);
      // Callers that still wait, or ask later, get an answer.
      client.fail(new ServiceError("cancelled", "Cannot go on: the engine was closed"));
      port.close();
      // A thread that did not answer hangs in the driver: do not wait for it again.
      await worker.close(answered === "late" ? 0 : SHUTDOWN_TIMEOUT_MS);
    },
  };
}
