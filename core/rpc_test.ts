import assert from "node:assert/strict";
import { ServiceError } from "./errors.ts";
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
  /** Counts up to the request and fails for a negative one. Returns how often it was aborted. */
  count: async function* (n: number, signal: AbortSignal): AsyncGenerator<number, string, void> {
    for (let i = 1; i <= Math.abs(n); i++) yield i;
    if (n < 0) throw new ServiceError("data_invalid", "Cannot count on");
    if (n > 3) {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    }
    given_up.push(signal.aborted);
    return "done";
  },
};

const given_up: boolean[] = [];

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

Deno.test("an aborted call reaches the other end with its reason", strict, async () => {
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

Deno.test("yielded items come before the answer or error", strict, async () => {
  await withClient(async (client) => {
    const { signal } = new AbortController();
    const items: number[] = [];
    const stream = client.stream("count", 3, signal);
    let next = await stream.next();
    for (; !next.done; next = await stream.next()) items.push(next.value);
    assert.deepEqual([items, next.value], [[1, 2, 3], "done"]);
    assert.equal(await client.call("count", 2), "done");
    const failing = client.stream("count", -1, signal);
    assert.equal((await failing.next()).value, 1);
    await assert.rejects(failing.next(), { code: "data_invalid", message: "Cannot count on" });
  });
});

Deno.test("a stream whose reader leaves is aborted at the other end", strict, async () => {
  await withClient(async (client) => {
    const before = given_up.length;
    for await (const item of client.stream("count", 4, new AbortController().signal)) {
      if (item === 4) break;
    }
    const stop = new AbortController();
    const stream = client.stream("count", 4, stop.signal);
    for (let i = 0; i < 4; i++) await stream.next();
    const last = stream.next();
    stop.abort(new ServiceError("cancelled", "Cannot go on: enough"));
    await assert.rejects(last, { code: "cancelled", message: "Cannot go on: enough" });
    assert.equal(given_up.length, before, "neither came to its end");
    const hanging = client.stream("count", 4, new AbortController().signal);
    await hanging.next();
    client.fail(new ServiceError("internal", "Cannot go on: the worker is gone"));
    await assert.rejects(Array.fromAsync(hanging), /worker is gone/);
  });
});
