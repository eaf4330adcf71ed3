/** Waiting for a worker's thread to end. */

/** Deno's names for worker threads. Threads that a worker starts, such as a driver's, inherit the name. */
const WORKER_THREAD = /^worker-\d+$/;

/** Time between two checks. */
const LOOK_MS = 2;

/** A worker and the name of its thread; null where the system does not list threads. */
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
 * Resolves when a worker's thread and the threads that it started have ended. A worker that used the device unloads the
 * driver after its last message, and no event reports that. Where the system does not list threads it resolves at once.
 *
 * @param timeout_ms The longest wait.
 * @returns Whether the thread has ended, as far as is known.
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

/** The names of this process's worker threads; each worker has its own. */
function workerThreads(): Set<string> {
  const found = new Set<string>();
  // Without the permission the threads are unknown. Do not prompt for it at the terminal.
  const may_read = Deno.permissions.querySync({ name: "read" }).state === "granted";
  if (Deno.build.os !== "linux" || !may_read) return found;
  try {
    for (const { name: id } of Deno.readDirSync("/proc/self/task")) {
      const name = threadName(id);
      if (WORKER_THREAD.test(name)) found.add(name);
    }
  } catch {
    // A partial read permission is not enough for /proc.
  }
  return found;
}

function threadName(id: string): string {
  try {
    return Deno.readTextFileSync(`/proc/self/task/${id}/comm`).trim();
  } catch {
    // The thread ended after it was listed.
    return "";
  }
}
