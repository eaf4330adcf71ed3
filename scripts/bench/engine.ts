/** An engine in this process, for the parts of the bench that measure it through its client. */

import { EngineClient } from "../../trainer/protocol/client.ts";
import { Engine } from "../../trainer/engine/engine.ts";
import type { EngineCounters, ModelFacts } from "../../trainer/protocol/protocol.ts";
import { type BenchContext, openBenchGpu } from "./context.ts";
import { LORA, type StepSizes } from "./step_sizes.ts";

/** The adapter for sequences and training steps. */
export const ADAPTER = "bench";

/** A client with a loaded model. */
export interface EngineBench extends BenchContext {
  client: EngineClient;
  sizes: StepSizes;
  facts: ModelFacts;
}

/** Loads the model for `body` and shuts the engine down afterwards. */
export async function withEngine(
  context: BenchContext,
  sizes: StepSizes,
  body: (bench: EngineBench) => Promise<void>,
): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  new Engine(() => openBenchGpu(context.webgpu)).serve(port1);
  const client = new EngineClient(port2);
  const { max_context, micro_batch_tokens, loss_chunk_rows } = sizes;
  const max_sequences = Math.max(...sizes.decode_batches);
  try {
    const facts = await client.call("load", {
      path: context.path,
      device: { device: "auto", webgpu: context.webgpu },
      compute: "auto",
      kv: "auto",
      max_context,
      max_sequences,
      kv_tokens: kvTokens(sizes),
      micro_batch_tokens,
      loss_chunk_rows,
    });
    await client.call("adapter_open", { adapter: ADAPTER, source: { type: "init", lora: LORA, seed: 1 } });
    await body({ ...context, client, sizes, facts });
  } finally {
    await client.close();
    port1.close();
  }
}

/** Tokens for the largest decode batch and the largest prefill, with one more page for each sequence. */
function kvTokens({ decode_batches, decode_prompt, decode_tokens, prefills }: StepSizes): number {
  const decode = Math.max(...decode_batches) * (decode_prompt + decode_tokens + 64);
  return Math.max(decode, ...prefills.map(([sequences, tokens]) => sequences * (tokens + 96)));
}

/** The counters' increments while `body` ran. */
export async function counted(
  client: EngineClient,
  body: () => Promise<void>,
): Promise<Omit<EngineCounters, "bytes" | "peak_bytes">> {
  const before = await client.call("counters", null);
  await body();
  const { bytes: _, peak_bytes: __, ...after } = await client.call("counters", null);
  const difference = Object.entries(after).map((
    [name, value],
  ) => [name, value - before[name as keyof typeof after]]);
  return Object.fromEntries(difference) as Omit<EngineCounters, "bytes" | "peak_bytes">;
}
