/** Messages that reach a worker before its code is loaded. */

/**
 * Keeps the messages of a scope while `load` imports their handler, and delivers them in order once the returned
 * function has added its listeners. Without a listener they would be lost.
 */
export async function bufferMessages(scope: EventTarget, load: () => Promise<() => void>): Promise<void> {
  const buffered: MessageEvent[] = [];
  const buffer = (event: Event) => buffered.push(event as MessageEvent);
  scope.addEventListener("message", buffer);
  let listen: () => void;
  try {
    listen = await load();
  } finally {
    scope.removeEventListener("message", buffer);
  }
  listen();
  for (const { data, ports } of buffered) {
    scope.dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
  }
}
