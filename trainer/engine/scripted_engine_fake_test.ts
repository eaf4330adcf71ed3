import { deepEqual, equal, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { testEngine } from "./engine_contract.ts";
import { type ContractEngine, generate, open } from "./engine_testing.ts";
import { ScriptedEngine } from "./scripted_engine_fake.ts";
import { SCRIPTED_END, scriptedTokens } from "./scripted_tokens_fake.ts";

const under = (engine: ScriptedEngine): ContractEngine => ({
  client: engine.client,
  logprob_tolerance: 1e-5,
  vocabulary: 64,
  tokens: scriptedTokens(64),
  end: SCRIPTED_END,
  close: () => engine.client.close(),
});

testEngine("scripted", async () => {
  const engine = new ScriptedEngine();
  await engine.client.call("load", {
    path: "",
    device: { device: "software", webgpu: "deno" },
    compute: "f32",
    kv: "f32",
    max_context: 256,
    max_sequences: 8,
    kv_tokens: 4096,
    micro_batch_tokens: 256,
    loss_chunk_rows: 64,
  });
  return under(engine);
});

Deno.test("a script is generated up to its stop token", async () => {
  const engine = new ScriptedEngine({ script: ({ turn }) => turn === 0 ? [4, 5, 6, 7, 8, 63] : [9, 63] });
  const sequence = await open(under(engine), [1]);
  const first = await generate(under(engine), { sequence, max_tokens: 10, stop_tokens: [63] });
  deepEqual([first.tokens, first.stop], [[4, 5, 6, 7, 8, 63], "stop_token"]);
  deepEqual((await generate(under(engine), { sequence, max_tokens: 1, stop_tokens: [63] })).tokens, [9]);
});

Deno.test("a script that hangs is ended by a cancel alone", async () => {
  const engine = new ScriptedEngine({ script: () => "hang" });
  const sequence = await open(under(engine), [1]);
  const generating = generate(under(engine), { sequence, max_tokens: 10 });
  let ended = false;
  generating.then(() => ended = true);
  await open(under(engine), [2]);
  equal(ended, false);
  await engine.client.call("sequence_cancel", { sequence });
  deepEqual(await generating, { tokens: [], logprobs: [], stop: "cancelled" });
});

Deno.test("a script that fails, a script too short and a refusal reach the caller", async () => {
  const lost = new ServiceError("device_lost", "Cannot go on: the device is gone");
  const failing = under(new ScriptedEngine({ script: () => lost }));
  const sequence = await open(failing, [1]);
  await rejects(generate(failing, { sequence, max_tokens: 3 }), { code: "device_lost" });
  equal((await failing.client.call("counters", null)).decode_tokens, 0);
  const short = under(new ScriptedEngine({ script: () => [1] }));
  await rejects(
    generate(short, { sequence: await open(short, [1]), max_tokens: 3 }),
    /ends before its stop token/,
  );
  const refusing = under(
    new ScriptedEngine({
      refuse: (method) => {
        if (method === "sequence_open") throw new ServiceError("out_of_memory", "Cannot open: full");
      },
    }),
  );
  await rejects(open(refusing, [1]), { code: "out_of_memory" });
});
