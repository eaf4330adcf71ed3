import { equal, notDeepEqual, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { gpuTest } from "../../kernels/testing.ts";
import { draw, type TestedEngine } from "../../trainer/engine/tested_engine.ts";
import type { TrainingSample } from "../../trainer/engine/protocol.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
import { renderConversation } from "../../trainer/tokenizer/conversation.ts";
import { Renderer } from "../../trainer/tokenizer/renderer.ts";
import { Tokenizer } from "../../trainer/tokenizer/tokenizer.ts";
import { fixturePath, readFixtureLines } from "../fixture.ts";
import { decodeGreedily, type GreedyRun, llamaCppMissing } from "../llama_cpp.ts";
import { openEngine, readGolden, sample } from "./golden.ts";

/** llama.cpp rounds activations to f16 on this file, so that a lead below this may turn. */
const NEAR_TIE = 3e-2;
const NEW_TOKENS = 200;
const STEPS = 6;
const TRACES = 4;

/** Supervised samples of the first traces. */
async function traceSamples(): Promise<TrainingSample[]> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const renderer = new Renderer(Tokenizer.fromGguf(file), ChatTemplate.fromGguf(file));
  const traces = (await readFixtureLines("models/tiny-agent/sft-traces.jsonl")).slice(0, TRACES);
  return traces.flatMap(({ messages, tools }, i) =>
    renderConversation(renderer, { messages, train_on: "assistant" }, { tools, variables: {} })
      .map(({ ids, loss_mask }) => sample(ids, i, { loss_mask: [...loss_mask] }))
  );
}

/** A few supervised steps; the adapter's file. */
async function trainAdapter({ client }: TestedEngine, path: string): Promise<void> {
  const lora = { rank: 8, alpha: 16, targets: [...LORA_TARGETS] };
  await client.call("adapter_open", { adapter: "trained", source: { type: "init", lora, seed: 5 } });
  const samples = await traceSamples();
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

/** Decodes beside llama.cpp's run: at a near tie both go on with its choice. The number of tokens that differed. */
async function followRun(
  engine: TestedEngine,
  { adapter, prompt, run }: { adapter: string | null; prompt: number[]; run: GreedyRun },
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
    ok(margin <= NEAR_TIE, `token ${at} is ${tokens[same]}, llama.cpp's ${choice} leads by ${margin}`);
    await client.call("sequence_truncate", { sequence, length: prompt.length + at });
    await client.call("sequence_extend", { sequence, tokens: [choice] });
    at++;
    ties++;
  }
  await client.call("sequence_close", { sequence });
  return ties;
}

const name = "llama.cpp decodes as the engine does, with and without an adapter trained here";
const missing = llamaCppMissing();
if (missing) Deno.test({ name: `${name} (skipped: ${missing})`, ignore: true, fn: () => {} });
else gpuTest(name, compareWithLlamaCpp);

async function compareWithLlamaCpp(): Promise<void> {
  const directory = await Deno.makeTempDir();
  const engine = await openEngine("f16", { micro_batch_tokens: 2048 });
  try {
    const golden = await readGolden();
    const prompts = [0, 2, 4, 7, 8].map((i) => golden.prompts[i]!.ids);
    const adapter_path = `${directory}/adapter.gguf`;
    const request = {
      model_path: await fixturePath("models/tiny-agent-f16.gguf"),
      prompts,
      max_new_tokens: NEW_TOKENS,
    };
    const [base] = await Promise.all([
      decodeGreedily({ ...request, adapter_path: null }),
      trainAdapter(engine, adapter_path),
    ]);
    const trained = await decodeGreedily({ ...request, adapter_path });
    const ties: number[] = [];
    for (const [adapter, runs] of [[null, base], ["trained", trained]] as const) {
      ok(runs.every(({ tokens }) => tokens.length === NEW_TOKENS));
      const followed = runs.map((run, i) => followRun(engine, { adapter, prompt: prompts[i]!, run }));
      ties.push(...await Promise.all(followed));
    }
    const changed = base.filter(({ tokens }, i) => `${tokens}` !== `${trained[i]!.tokens}`).length;
    notDeepEqual(changed, 0, "the adapter changes some of the runs");
    console.log(
      `llama.cpp and the engine chose differently at ${ties.reduce((a, b) => a + b)} near ties of ` +
        `${ties.length * NEW_TOKENS} tokens; the adapter changed ${changed} of ${base.length} runs`,
    );
  } finally {
    await engine.close();
    await Deno.remove(directory, { recursive: true });
  }
}
