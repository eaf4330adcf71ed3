import { notDeepEqual, ok } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { TrainingSample } from "../../trainer/protocol/protocol.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { ChatTemplate } from "../../trainer/tokenizer/chat_template.ts";
import { renderConversation } from "../../trainer/tokenizer/conversation.ts";
import { Renderer } from "../../trainer/tokenizer/renderer.ts";
import { readTokenizer } from "../../trainer/tokenizer/read_tokenizer.ts";
import { fixturePath, readFixtureLines } from "../fixture.ts";
import { decodeGreedily, llamaCppMissing } from "../llama_cpp.ts";
import { followRun, trainAdapter } from "./follow_llama_cpp.ts";
import { openEngine, readGolden, sample } from "./golden.ts";

const NEW_TOKENS = 80;
const TRACES = 4;

/** SFT samples from the first examples. */
async function traceSamples(): Promise<TrainingSample[]> {
  using file = await openGguf(await fixturePath("models/tiny-agent-f16.gguf"));
  const renderer = new Renderer(readTokenizer(file), ChatTemplate.fromGguf(file));
  const traces = (await readFixtureLines("models/tiny-agent/sft-traces.jsonl")).slice(0, TRACES);
  return traces.flatMap(({ messages, tools }, i) =>
    renderConversation(renderer, { messages, train_on: "assistant" }, { tools, variables: {} })
      .map(({ ids, loss_mask }) => sample(ids, i, { loss_mask: [...loss_mask] }))
  );
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
      trainAdapter(engine, { samples: await traceSamples(), path: adapter_path }),
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
