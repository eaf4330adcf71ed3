/** The engine beside llama.cpp: an adapter trained here, and runs that follow each other's tokens. */

import { equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { TrainingSample } from "../../trainer/engine/protocol.ts";
import { draw, type TestedEngine } from "../../trainer/engine/engine_testing.ts";
import type { GreedyRun } from "../llama_cpp.ts";

/** llama.cpp rounds activations to f16 for products with weights of f16, so that a lead below this may turn. */
const NEAR_TIE = 3e-2;
const STEPS = 6;

/** A few supervised steps; the adapter's file. */
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

/** What is followed; `near_tie` is the lead of a logit below which the choices may differ. */
export interface Followed {
  adapter: string | null;
  prompt: number[];
  run: GreedyRun;
  near_tie?: number;
}

/** Decodes beside llama.cpp's run: at a near tie both go on with its choice. The number of tokens that differed. */
export async function followRun(
  engine: TestedEngine,
  { adapter, prompt, run, near_tie = NEAR_TIE }: Followed,
): Promise<number> {
  const { client } = engine, sequence = client.newSequence();
  await client.call("sequence_open", { sequence, adapter, parent: null, tokens: prompt });
  let at = 0, ties = 0;
  while (at < run.tokens.length) {
    const drawing = { sequence, max_tokens: run.tokens.length - at };
    const { tokens } = await draw(engine, drawing);
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
