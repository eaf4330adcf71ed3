/** Pauses in long work. */

/**
 * Lets other work of the thread run. A timer, because between turns of `setImmediate` Deno leaves requests waiting for
 * half a second.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

/**
 * Waits until what other threads have sent, and events of the device, have been handled. It takes 0.02 to 0.15 ms, where
 * {@link nextTurn} takes 1 to 2, and does nothing for files and sockets. After a turn of `setImmediate` alone, messages are
 * up to 30 turns late.
 *
 * @example
 * ```ts
 * const { port1, port2 } = new MessageChannel();
 * let heard = "";
 * port1.onmessage = ({ data }) => heard = data;
 * port2.postMessage("stop");
 * while (heard === "") await hearMessages();
 * port1.close();
 * ```
 */
export async function hearMessages(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => {
    port1.onmessage = resolve;
    port2.postMessage(null);
  });
  port1.close();
  port2.close();
}

/** The most times that messages are heard in a row, about 2 ms besides what is done for them. */
const MOST_HEARINGS = 16;

/**
 * Hears messages again and again, as long as `hasHeard` says each time that some have arrived: many that were sent together
 * are not heard together.
 */
export async function hearWhile(hasHeard: () => boolean): Promise<void> {
  for (let i = 0; i < MOST_HEARINGS; i++) {
    await hearMessages();
    if (!hasHeard()) return;
  }
}

/** Pauses long work after a number of units, so that other work of the thread can run. */
export class Pauses {
  #units = 0;

  constructor(readonly every: number) {}

  /** Counts finished units, and pauses when there are enough since the last pause. */
  async after(units: number): Promise<void> {
    this.#units += units;
    if (this.#units < this.every) return;
    this.#units = 0;
    await nextTurn();
  }
}
