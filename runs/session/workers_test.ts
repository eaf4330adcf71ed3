import assert from "node:assert/strict";
import { RpcClient } from "../../core/rpc.ts";
import { startWorker, workerName } from "./workers.ts";

const entry_url = new URL("./worker_fake.ts", import.meta.url).href;

type Methods = {
  name: (request: null, signal: AbortSignal) => Promise<string | null>;
  relay: (request: number, signal: AbortSignal) => Promise<number>;
  read: (path: string, signal: AbortSignal) => Promise<string>;
};

const permissions = { read: false, write: false, net: false, run: false, env: false, ffi: false } as const;

Deno.test("the main thread is no worker", () => assert.equal(workerName(), null));

Deno.test("both workers start from one entry, and ports passed to one reach the other", async () => {
  const engine = startWorker("engine", { entry_url, permissions });
  const agent = startWorker("agent", { entry_url, permissions });
  const first = engine.connect({ scale: 3 });
  const second = agent.connect({ scale: 1 }, [engine.connect({ scale: 10 })]);
  const calls = { engine: new RpcClient<Methods>(first), agent: new RpcClient<Methods>(second) };
  assert.equal(await calls.engine.call("name", null), "engine");
  assert.equal(await calls.agent.call("name", null), "agent");
  assert.equal(await calls.engine.call("relay", 7), 21);
  assert.equal(await calls.agent.call("relay", 7), 70);
  await Promise.all([engine.close(), agent.close()]);
  first.close();
  second.close();
});

Deno.test("a worker has the permissions that it was given", async () => {
  const readable = new URL(import.meta.url).pathname;
  for (const read of [false, [readable]] as const) {
    const worker = startWorker("agent", {
      entry_url,
      permissions: { ...permissions, read: read === false ? false : [...read] },
    });
    const port = worker.connect({ scale: 1 });
    const reading = new RpcClient<Methods>(port).call("read", readable);
    if (read === false) await assert.rejects(reading, /NotCapable|read access/);
    else assert.match(await reading, /startWorker/);
    await worker.close();
    port.close();
  }
});

Deno.test("a worker releases what each of its services holds before it closes", async () => {
  const worker = startWorker("agent", { entry_url, permissions });
  const released = [1, 2].map((scale) => {
    const port = worker.connect({ scale }), told = Promise.withResolvers<unknown>();
    const client = new RpcClient<Methods>(port, told.resolve);
    return told.promise.finally(() => client.close());
  });
  await worker.close();
  assert.deepEqual(await Promise.all(released), [{ released: 1 }, { released: 2 }]);
});

Deno.test("an error outside of a request reaches the supervisor", async () => {
  const worker = startWorker("agent", { entry_url, permissions });
  const port = worker.connect("break");
  assert.match((await worker.failed).message, /agent worker failed.*broken on purpose/);
  port.close();
});
