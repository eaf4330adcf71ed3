/** The signals that ask a program to stop. */

/** SIGHUP comes when the terminal disappears; Windows has only SIGINT. */
const POSIX_SIGNALS: readonly Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The bit of SIGHUP in the mask of ignored signals. */
const HANGUP_BIT = 1n;

/** Whether this process was started to outlive the terminal, as `nohup` does. Only Linux shows it. */
function ignoresHangup(): boolean {
  // A worker, whose entry includes this file, may not read it and would prompt at the terminal.
  const may_read = Deno.permissions.querySync({ name: "read" }).state === "granted";
  if (Deno.build.os !== "linux" || !may_read) return false;
  try {
    const [, mask] = /^SigIgn:\s*([0-9a-f]+)$/m.exec(Deno.readTextFileSync("/proc/self/status"))!;
    return (BigInt(`0x${mask}`) & HANGUP_BIT) !== 0n;
  } catch {
    return false;
  }
}

/** Read once before anything else: Deno's first listener, for any signal, removes the mark. */
const IGNORES_HANGUP = ignoresHangup();

/**
 * Calls back at every signal to stop, with its name, until the returned function is called. SIGHUP counts only before all
 * others: a terminal that closes sends it twice (the kernel, and its shell), and nobody asks for haste with it.
 */
export function onStopSignal(callback: (signal: Deno.Signal) => void): () => void {
  let calls = 0;
  const called = (signal: Deno.Signal) => {
    if (calls++ === 0 || signal !== "SIGHUP") callback(signal);
  };
  const signals = Deno.build.os === "windows" ? ["SIGINT"] as const : POSIX_SIGNALS;
  const listeners = signals.map((signal) => {
    // Once any other signal has a listener, SIGHUP without one would end the process.
    const listener = signal === "SIGHUP" && IGNORES_HANGUP ? () => {} : () => called(signal);
    Deno.addSignalListener(signal, listener);
    return { signal, listener };
  });
  return () => listeners.forEach(({ signal, listener }) => Deno.removeSignalListener(signal, listener));
}

/** The signals that ask a server to stop. */
export interface StopSignals {
  /** Resolves at the first one: the server closes what is open. */
  first: Promise<Deno.Signal>;
  /** Resolves at the second one: the server ends at once. */
  second: Promise<Deno.Signal>;
  /** Leaves signals to the system again. */
  release(): void;
}

/** Listens for the signals to stop. */
export function stopSignals(): StopSignals {
  const first = Promise.withResolvers<Deno.Signal>(), second = Promise.withResolvers<Deno.Signal>();
  let count = 0;
  const release = onStopSignal((signal) => (count++ === 0 ? first : second).resolve(signal));
  return { first: first.promise, second: second.promise, release };
}
