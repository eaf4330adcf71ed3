/** `svc-server` that tells when its thread was busy: a line `blocked` with the milliseconds of each such time. */

const TURN_MS = 5;
/** Shorter times are those of any request. */
const TOLD_MS = 20;

let last = performance.now();
Deno.unrefTimer(setInterval(() => {
  const now = performance.now(), blocked_ms = now - last - TURN_MS;
  last = now;
  if (blocked_ms >= TOLD_MS) console.error(JSON.stringify({ message: "blocked", blocked_ms }));
}, TURN_MS));

await import("../../main.ts");
