/** Messages that reach a worker before its code is loaded. */

/**
 * Keeps the messages of a scope while `load` imports what handles them, and delivers them, in order, once the function
 * that it returns has added its listeners: a message that finds no listener would be lost.
 */
export async function holdMessages(scope: EventTarget, load: () => Promise<() => void>): Promise<void> {
  const held: MessageEvent[] = [];
  const hold = (event: Event) => held.push(event as MessageEvent);
  scope.addEventListener("message", hold);
  let listen: () => void;
  try {
    listen = await load();
  } finally {
    scope.removeEventListener("message", hold);
  }
  listen();
  for (const { data, ports } of held) {
    scope.dispatchEvent(new MessageEvent("message", { data, ports: [...ports] }));
  }
}
