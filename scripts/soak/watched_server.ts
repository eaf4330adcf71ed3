/**
 * `svc-server` that tells when its thread was busy: a line `blocked` for each time between two turns of its loop, with its
 * milliseconds and those for which the thread had a processor. The rest went to other programs, on a busy machine.
 */

const TURN_MS = 5;
/** Shorter times are those of any request. */
const TOLD_MS = 20;

/** The milliseconds of processor time that this thread has had. */
function threadMs(): number {
  const [ns = ""] = Deno.readTextFileSync(`/proc/self/task/${Deno.pid}/schedstat`).split(" ");
  return Number(ns) / 1e6;
}

let last = performance.now(), last_thread = threadMs();
Deno.unrefTimer(setInterval(() => {
  const now = performance.now(), thread = threadMs();
  const blocked_ms = now - last - TURN_MS, busy_ms = Math.min(blocked_ms, thread - last_thread);
  [last, last_thread] = [now, thread];
  if (blocked_ms >= TOLD_MS) console.error(JSON.stringify({ message: "blocked", blocked_ms, busy_ms }));
}, TURN_MS));

await import("../../main.ts");
