import assert from "node:assert/strict";
import { gpuTest } from "../../kernels/testing.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { EngineClient } from "./client.ts";
import { Engine, type ServedPort } from "./engine.ts";
import { testEngine } from "./engine_contract.ts";
import { close, draw, open, someTokens, type TestedEngine } from "./tested_engine.ts";

async function openEngine(): Promise<TestedEngine> {
  const { port1, port2 } = new MessageChannel();
  new Engine().serve(port1 as unknown as ServedPort);
  const client = new EngineClient(port2);
  await client.call("load", {
    path: await fixturePath("models/tiny-agent-f16.gguf"),
    device: { device: "auto", webgpu: "auto" },
    compute: "f32",
    kv: "f32",
    max_context: 512,
    max_sequences: 16,
    kv_tokens: 16 * 512,
    micro_batch_tokens: 512,
    loss_chunk_rows: 256,
  });
  return {
    client,
    logprob_tolerance: 1e-5,
    close: async () => {
      await client.close();
      port1.close();
    },
  };
}

testEngine("engine on the device", openEngine);

gpuTest(
  "sequences that begin alike share whole pages, run them once, and draw what they would alone",
  async () => {
    const engine = await openEngine(), { client } = engine;
    try {
      const system = someTokens(3, 70), sampling = { temperature: 1, stream: [8, 8] as const };
      const alone = await open(engine, [...system, 9]);
      const expected = await draw(engine, { sequence: alone, max_tokens: 12, sampling });
      await close(engine, alone);
      const before = await client.call("counters", null);
      const sequences = await Promise.all([9, 9, 10].map((token) => open(engine, [...system, token])));
      const held = await client.call("counters", null);
      // Two whole pages in common, and of each sequence one page for its last 7 tokens.
      assert.equal(held.kv_pages_used - before.kv_pages_used, 2 + 3);
      const drawn = await Promise.all(
        sequences.map((sequence) => draw(engine, { sequence, max_tokens: 12, sampling })),
      );
      const after = await client.call("counters", null);
      assert.equal(after.prefill_tokens - before.prefill_tokens, 64 + 3 * 7);
      assert.deepEqual(drawn[0], expected);
      assert.deepEqual(drawn[1], expected);
      await close(engine, ...sequences);
      assert.equal((await client.call("counters", null)).kv_pages_used, before.kv_pages_used);
    } finally {
      await engine.close();
    }
  },
);
