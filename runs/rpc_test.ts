import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { RpcClient, serveRpc } from "./rpc.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const methods = {
  double: (n: number, _signal: AbortSignal) => Promise.resolve(2 * n),
  refuse: (message: string, _signal: AbortSignal): Promise<null> =>
    Promise.reject(new ServiceError("data_invalid", message, { line: 3 })),
  hang: (_request: null, signal: AbortSignal): Promise<string> =>
    new Promise((_, reject) => {
      const end = () => reject(signal.reason);
      if (signal.aborted) end();
      signal.addEventListener("abort", end);
    }),
};

async function withClient(body: (client: RpcClient<typeof methods>) => Promise<void>) {
  const { port1, port2 } = new MessageChannel();
  serveRpc(port1, methods);
  const client = new RpcClient<typeof methods>(port2);
  try {
    await body(client);
  } finally {
    client.close();
    port1.close();
  }
}

Deno.test("a call is answered, an error keeps its code", strict, async () => {
  await withClient(async (client) => {
    assert.deepEqual(await Promise.all([client.call("double", 1), client.call("double", 2)]), [2, 4]);
    await assert.rejects(client.call("refuse", "Cannot"), { code: "data_invalid", details: { line: 3 } });
  });
});

Deno.test("a call that is given up reaches the other end with its reason", strict, async () => {
  await withClient(async (client) => {
    const stop = new AbortController();
    const hanging = client.call("hang", null, stop.signal);
    assert.equal(await client.call("double", 4), 8);
    stop.abort(new ServiceError("cancelled", "Cannot go on: enough"));
    await assert.rejects(hanging, { code: "cancelled", message: "Cannot go on: enough" });
    await assert.rejects(client.call("hang", null, stop.signal), { code: "cancelled" });
  });
});

Deno.test("when the other end is gone every call fails", strict, async () => {
  await withClient(async (client) => {
    const hanging = client.call("hang", null);
    client.fail(new ServiceError("internal", "Cannot go on: the worker is gone"));
    await assert.rejects(hanging, /worker is gone/);
    await assert.rejects(client.call("double", 1), /worker is gone/);
  });
});
