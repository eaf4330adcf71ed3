/** Compares the engine with llama.cpp: a trained adapter, and decoding that follows llama.cpp's tokens. */

import { equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { TrainingSample } from "../../trainer/protocol/protocol.ts";
import { generate, type TestedEngine } from "../../trainer/engine/engine_testing.ts";
import type { GreedyRun } from "../llama_cpp.ts";

/** llama.cpp rounds activations to f16 for products with f16 weights, so a smaller lead may change the choice. */
const NEAR_TIE = 3e-2;
const STEPS = 6;

/** Trains for a few SFT steps and returns the adapter's file. */
export async function trainAdapter(
  { client }: TestedEngine,
  { samples, path }: { samples: TrainingSample[]; path: string },
): Promise<void> {
  const lora = { rank: 8, alpha: 16, targets: [...LORA_TARGETS] };
  await client.call("adapter_open", { adapter: "trained", source: { type: "init", lora, seed: 5 } });
  const normalizer = samples.reduce((sum, { loss_mask }) => sum + loss_mask.reduce((a, b) => a + b, 0), 0);
  const optimizer = {
    learning_rate: 1e-2,
    beta1: 0.9,
    beta2: 0.999,
    eps: 1e-8,
    weight_decay: 0,
    max_grad_norm: 1,
  };
  for (let step = 0; step < STEPS; step++) {
    const request = { adapter: "trained", samples, loss: { type: "sft", normalizer } as const, optimizer };
    equal((await client.call("train_step", request)).skipped, false);
  }
  await client.call("adapter_save", { adapter: "trained", path, peft_dir: null });
}

/** The prompts to follow; `near_tie` is the lead of a logit below which the choices may differ. */
export interface Followed {
  adapter: string | null;
  prompt: number[];
  run: GreedyRun;
  near_tie?: number;
}

/**
 * Decodes along llama.cpp's tokens: at a near tie both continue with its choice. Returns the number of differing
 * tokens.
 */
export async function followRun(
  engine: TestedEngine,
  { adapter, prompt, run, near_tie = NEAR_TIE }: Followed,
): Promise<number> {
  const { client } = engine, sequence = client.newSequence();
  await client.call("sequence_open", { sequence, adapter, parent: null, tokens: prompt });
  let at = 0, ties = 0;
  while (at < run.tokens.length) {
    const generation = { sequence, max_tokens: run.tokens.length - at };
    const { tokens } = await generate(engine, generation);
    const same = tokens.findIndex((token, i) => token !== run.tokens[at + i]);
    if (same < 0) break;
    at += same;
    const choice = run.tokens[at]!, margin = run.margins[at]!;
    ok(margin <= near_tie, `token ${at} is ${tokens[same]}, llama.cpp's ${choice} leads by ${margin}`);
    await client.call("sequence_truncate", { sequence, length: prompt.length + at });
    await client.call("sequence_extend", { sequence, tokens: [choice] });
    at++;
    ties++;
  }
  await client.call("sequence_close", { sequence });
  return ties;
}
