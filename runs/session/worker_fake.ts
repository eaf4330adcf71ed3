/** The entry file of workers in tests. */

import { RpcClient, serveRpc } from "../../core/rpc.ts";
import { acceptPorts, workerName } from "./workers.ts";

type Relay = { relay: (request: number, signal: AbortSignal) => Promise<number> };

acceptPorts((port, data, others) => {
  if (data === "break") throw new Error("broken on purpose");
  const { scale } = data as { scale: number };
  const next = others[0] && new RpcClient<Relay>(others[0]);
  serveRpc(port, {
    name: () => Promise.resolve(workerName()),
    relay: async (n: number) => scale * (next ? await next.call("relay", n) : n),
    rollout: () => new Promise(() => {}),
    read: (path: string) => Deno.readTextFile(path),
  });
  return () => Promise.resolve(port.postMessage({ released: scale }));
});
