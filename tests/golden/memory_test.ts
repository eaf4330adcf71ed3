import { deepEqual, equal, ok } from "node:assert/strict";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { makeModel } from "../../scripts/make_model.ts";
import { EngineClient } from "../../trainer/protocol/client.ts";
import { Engine } from "../../trainer/engine/engine.ts";
import type { EngineCounters } from "../../trainer/protocol/protocol.ts";
import { generate } from "../../trainer/engine/engine_testing.ts";
import { sample } from "./golden.ts";

const LENGTHS = [512, 1024, 2048, 4096, 8192];
/** Contexts from this one on have a prefill step with as many rows as it ever has. */
const wholePrefill = ({ facts }: Gpu) => facts.software ? 1024 : 2048;
/** For the random model: layers, key/value heads and their width; and query heads, for attention's own buffers. */
const LAYERS = 2, KV_HEADS = 2, HEAD_WIDTH = 32, HEADS = 4;

/** Bytes on the device by component after scoring, training on or sampling from a sequence of `length` tokens. */
async function bytesAt(path: string, length: number, tokens: number[]): Promise<EngineCounters["bytes"]> {
  const { port1, port2 } = new MessageChannel();
  new Engine().serve(port1);
  const client = new EngineClient(port2);
  try {
    const { vocabulary } = await client.call("load", {
      ...{ path, device: { device: "auto", webgpu: "auto" }, compute: "f32", kv: "f32" },
      ...{ max_context: length, kv_tokens: length, micro_batch_tokens: length },
      ...{ max_sequences: 8, loss_chunk_rows: 256 },
    });
    const lora = { rank: 4, alpha: 8, targets: ["q_proj" as const] };
    await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
    const optimizer = {
      learning_rate: 1e-3,
      beta1: 0.9,
      beta2: 0.999,
      eps: 1e-8,
      weight_decay: 0,
      max_grad_norm: 1,
    };
    const loss_mask = tokens.map((_, t) => t >= tokens.length - 8 ? 1 : 0);
    const result = await client.call("train_step", {
      ...{ adapter: "policy", samples: [sample(tokens, 0, { loss_mask })], optimizer },
      loss: { type: "sft", normalizer: 8 },
    });
    equal(result.micro_batches, 1);
    equal(result.computed_tokens, tokens.length - 1);
    const trained = (await client.call("counters", null)).bytes;
    const sequence = client.newSequence();
    await client.call("sequence_open", {
      sequence,
      adapter: null,
      parent: null,
      tokens: tokens.slice(0, -4),
    });
    const engine = { client, logprob_tolerance: 0, vocabulary, close: () => client.close() };
    await generate(engine, { sequence, max_tokens: 4 });
    const sampled = (await client.call("counters", null)).bytes;
    // Sampling and training use the same memory in turn.
    const components = [...Object.keys(trained), ...Object.keys(sampled)];
    return Object.fromEntries(
      components.map((name) => [name, Math.max(trained[name] ?? 0, sampled[name] ?? 0)]),
    );
  } finally {
    await client.close();
    port1.close();
  }
}

const sum = (bytes: EngineCounters["bytes"]) => Object.values(bytes).reduce((a, b) => a + b, 0);

gpuTest("allocated bytes grow linearly with the context from 512 to 8192", async (gpu) => {
  const directory = await Deno.makeTempDir();
  try {
    const path = `${directory}/tiny.gguf`;
    await makeModel({ shape: "tiny", path, type: "f16", seed: 1 });
    const short = Array.from({ length: 100 }, (_, i) => (7 * i) % 1024);
    const measured: EngineCounters["bytes"][] = [];
    for (const length of LENGTHS) measured.push(await bytesAt(path, length, short));
    const long = Array.from({ length: 1024 }, (_, i) => (7 * i) % 1024);
    const { staging: _, kv: full_kv, ...full } = await bytesAt(path, 1024, long);
    const { staging: __, kv: empty_kv, ...empty } = measured[1]!;
    equal(full_kv, empty_kv, "1,024 tokens are 32 pages, fewer than a cache has at least");
    deepEqual(full, empty, "a pass over the full context allocates nothing more");

    // Between two lengths every component grows by a constant number of bytes per token.
    const last = measured.at(-1)!;
    for (const component of Object.keys(last).filter((name) => name !== "kv")) {
      const at = component === "sampler" ? LENGTHS.indexOf(wholePrefill(gpu)) : 0;
      const from = LENGTHS[at]!, first = measured[at]!;
      const per_token = (last[component]! - first[component]!) / (LENGTHS.at(-1)! - from);
      LENGTHS.forEach((length, i) => {
        if (length < from) return;
        const line = first[component]! + per_token * (length - from);
        const off = Math.abs(measured[i]![component]! - line);
        ok(
          off <= 0.02 * line,
          `${component}: ${measured[i]![component]} bytes at ${length}, on the line ${line}`,
        );
      });
    }
    // A page holds 32 tokens' keys and values of every layer. The cache has the pages of 100 tokens: 64, or all.
    const page_bytes = 32 * 2 * 4 * LAYERS * KV_HEADS * HEAD_WIDTH;
    LENGTHS.forEach((length, i) => equal(measured[i]!.kv, Math.min(length / 32, 64) * page_bytes));
    const scores = 4 * HEADS * LENGTHS.at(-1)! ** 2;
    ok(sum(last) < scores, `${sum(last)} bytes in all are less than one layer's ${scores} of T × T scores`);
    console.log(
      `bytes of activations: ${LENGTHS.map((n, i) => `${measured[i]!.activations} at ${n}`).join(", ")}`,
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
