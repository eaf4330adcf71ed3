/** When the thread of a worker is gone. */

/** Deno names a worker's thread so; threads that the worker starts, such as a driver's, inherit the name. */
const WORKER_THREAD = /^worker-\d+$/;

/** How long between two looks. */
const LOOK_MS = 2;

/** A worker and the name of its thread; null where the system does not show threads. */
export interface StartedThread {
  worker: Worker;
  thread: string | null;
}

/** Starts a worker and finds its thread. */
export function startThread(start: () => Worker): StartedThread {
  const before = workerThreads();
  const worker = start();
  const [thread = null] = workerThreads().difference(before);
  return { worker, thread };
}

/**
 * Resolves when a worker's thread is gone, and those that it started. A worker that used the device lets go of the
 * driver when it closes, after its last message: no event tells that it has finished. Where the system does not show
 * threads it resolves at once.
 *
 * @param timeout_ms How long to wait at most.
 * @returns Whether it is gone, as far as is known.
 */
export async function threadGone(thread: string | null, timeout_ms: number): Promise<boolean> {
  if (thread === null) return true;
  const end = performance.now() + timeout_ms;
  while (workerThreads().has(thread)) {
    if (performance.now() >= end) return false;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return true;
}

/** The names of this process's worker threads; each worker has another. */
function workerThreads(): Set<string> {
  const found = new Set<string>();
  // Without the permission nothing is known, and nobody is to be asked for it at the terminal.
  const may_read = Deno.permissions.querySync({ name: "read" }).state === "granted";
  if (Deno.build.os !== "linux" || !may_read) return found;
  try {
    for (const { name: id } of Deno.readDirSync("/proc/self/task")) {
      const name = threadName(id);
      if (WORKER_THREAD.test(name)) found.add(name);
    }
  } catch {
    // Some permission to read is not enough for /proc.
  }
  return found;
}

function threadName(id: string): string {
  try {
    return Deno.readTextFileSync(`/proc/self/task/${id}/comm`).trim();
  } catch {
    // It ended since it was listed.
    return "";
  }
}
