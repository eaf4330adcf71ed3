/** The signals that ask a program to leave. */

/** SIGHUP comes when the terminal disappears; Windows has SIGINT alone. */
const POSIX_SIGNALS: readonly Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The bit of SIGHUP in the mask of ignored signals. */
const HANGUP_BIT = 1n;

/** Whether whoever started this process wants it to outlive the terminal, as `nohup` does. Only Linux tells. */
function ignoresHangup(): boolean {
  // A worker, which has this file as a part of its entry, may not read that and would ask at the terminal.
  const may_read = Deno.permissions.querySync({ name: "read" }).state === "granted";
  if (Deno.build.os !== "linux" || !may_read) return false;
  try {
    const [, mask] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(Deno.readTextFileSync("/proc/self/status"))!;
    return (BigInt(`0x${mask}`) & HANGUP_BIT) !== 0n;
  } catch {
    return false;
  }
}

/** Read once and first of all: Deno's first listener, of whatever signal, takes the mark away. */
const IGNORES_HANGUP = ignoresHangup();

/** Calls back at every signal to leave, until the returned function is called. */
export function onLeaveSignal(callback: () => void): () => void {
  const signals = Deno.build.os === "windows" ? ["SIGINT"] as const : POSIX_SIGNALS;
  const listeners = signals.map((signal) => {
    // Without a listener of its own it would end the process as soon as there is one of any other signal.
    const listener = signal === "SIGHUP" && IGNORES_HANGUP ? () => {} : callback;
    Deno.addSignalListener(signal, listener);
    return { signal, listener };
  });
  return () => listeners.forEach(({ signal, listener }) => Deno.removeSignalListener(signal, listener));
}
