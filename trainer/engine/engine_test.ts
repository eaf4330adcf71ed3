import { fixturePath } from "../../tests/fixture.ts";
import { EngineClient } from "./client.ts";
import { Engine, type ServedPort } from "./engine.ts";
import { testEngine } from "./engine_contract.ts";

testEngine("engine on the device", async () => {
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
});
