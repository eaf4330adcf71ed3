/** The checks of the engine's contract about taking back and abandoning what training changes. */

import { deepEqual, equal, notDeepEqual, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import {
  close,
  open,
  OPTIMIZER,
  sample,
  someTokens,
  step,
  type TestedEngine,
  withAdapter,
} from "./engine_testing.ts";
import type { LossRequest } from "../protocol/protocol.ts";

/** What a checkpoint of an adapter holds. */
async function checkpointOf({ client }: TestedEngine, adapter: string): Promise<string[]> {
  const directory = await Deno.makeTempDir();
  try {
    await client.call("checkpoint_save", { adapter, directory });
    const files = await Array.fromAsync(Deno.readDir(directory));
    return await Promise.all(
      files.map(({ name }) => name).sort().map(async (name) =>
        name + new TextDecoder("latin1").decode(await Deno.readFile(`${directory}/${name}`))
      ),
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** The longest sequence that every tested engine takes. */
const CONTEXT = 256;

const refusedWith = (code: string) => (e: unknown) => e instanceof ServiceError && e.code === code;

export async function checkKept(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  await withAdapter(engine, async (adapter) => {
    const samples = [sample(someTokens(6, 20), 10)], loss: LossRequest = { type: "sft", normalizer: 10 };
    await rejects(client.call("adapter_revert", { adapter }), refusedWith("conflict"));
    await step(engine, { adapter, samples, loss });
    await client.call("adapter_keep", { adapter });
    const kept = await checkpointOf(engine, adapter);
    for (let i = 0; i < 2; i++) {
      for (const step_number of [2, 3]) {
        equal((await step(engine, { adapter, samples, loss })).step, step_number);
      }
      notDeepEqual(await checkpointOf(engine, adapter), kept);
      const { version } = await client.call("adapter_revert", { adapter });
      equal(version, 1);
      deepEqual(await checkpointOf(engine, adapter), kept);
    }
    const sequence = await open(engine, [1], { adapter });
    await rejects(client.call("adapter_revert", { adapter }), refusedWith("conflict"));
    await close(engine, sequence);
  });
}

export async function checkAbandoned(engine: TestedEngine): Promise<void> {
  const { client } = engine;
  await withAdapter(engine, async (adapter) => {
    // They are more than one micro-batch.
    const samples = Array.from(
      { length: 4 },
      (_, i) => sample(someTokens(i, CONTEXT), 1, { trajectory: i }),
    );
    const loss: LossRequest = { type: "sft", normalizer: 10 };
    await step(engine, { adapter, samples: samples.slice(0, 1), loss });
    const before = await checkpointOf(engine, adapter);
    const requests = {
      train_step: { adapter, samples, loss, optimizer: OPTIMIZER },
      score: { adapter, samples },
      divergence: { adapter, from: null, samples },
    };
    for (const method of ["train_step", "score", "divergence"] as const) {
      const aborted = new AbortController(), reason = new ServiceError("cancelled", `Cannot ${method}: left`);
      const answer = client.call(method, requests[method] as never, aborted.signal);
      aborted.abort(reason);
      await rejects(answer, { code: reason.code, message: reason.message }, method);
      await rejects(client.call(method, requests[method] as never, aborted.signal), { code: reason.code });
    }
    deepEqual(await checkpointOf(engine, adapter), before);
    equal((await step(engine, { adapter, samples, loss })).step, 2, "the engine goes on");
  });
}
