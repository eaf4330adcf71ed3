import assert from "node:assert/strict";
import { bufferMessages } from "./buffered_messages.ts";

Deno.test("early messages are delivered in order, with their ports, each once", async () => {
  const scope = new EventTarget();
  const { port1, port2 } = new MessageChannel();
  const seen: [unknown, number][] = [];
  const send = (data: unknown, ports: MessagePort[] = []) =>
    scope.dispatchEvent(new MessageEvent("message", { data, ports }));
  const loaded = Promise.withResolvers<void>();
  const holding = bufferMessages(scope, async () => {
    await loaded.promise;
    return () =>
      scope.addEventListener("message", (event) => {
        const { data, ports } = event as MessageEvent;
        seen.push([data, ports.length]);
      });
  });
  send(1, [port1]);
  send(2);
  assert.deepEqual(seen, []);
  loaded.resolve();
  await holding;
  send(3);
  assert.deepEqual(seen, [[1, 1], [2, 0], [3, 0]]);
  port1.close();
  port2.close();
});
