/**
 * Greedy decoding by llama.cpp, as a program: one JSON request on standard input, one JSON answer on standard output
 * (both typed in ../llama_cpp.ts). Keys and values are f32 and flash attention is off, so that only the rounding of
 * activations to the weights' type differs from f32 arithmetic.
 */

import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const { model_path, adapter_path, prompts, max_new_tokens } = await new Response(Deno.stdin.readable).json();
const llama = await getLlama({
  gpu: false,
  maxThreads: 1,
  build: "never",
  skipDownload: true,
  logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath: model_path });
const context = await model.createContext({
  // Its threads wait for each other by spinning, which takes minutes beside other work.
  threads: 1,
  contextSize: Math.max(...prompts.map((prompt) => prompt.length)) +
    max_new_tokens,
  flashAttention: false,
  experimentalKvCacheKeyType: "F32",
  experimentalKvCacheValueType: "F32",
  ...(adapter_path ? { lora: { adapters: [{ filePath: adapter_path, scale: 1 }] } } : {}),
});
const sequence = context.getSequence();
// The complete distribution of the next token, largest first.
const distribution = {
  probabilities: true,
  options: { temperature: 1, topK: 0, topP: 1, minP: 0 },
};
const runs = [];
for (const prompt of prompts) {
  await sequence.clearHistory();
  const tokens = [], margins = [];
  let input = prompt;
  while (tokens.length < max_new_tokens) {
    const last = [input.at(-1), { generateNext: distribution }];
    const output = await sequence.controlledEvaluate([
      ...input.slice(0, -1),
      last,
    ]);
    const [[token, first], [, second]] = [
      ...output[input.length - 1].next.probabilities,
    ];
    tokens.push(token);
    // The difference of two logits is that of their log-probabilities; a probability may be too small for f32.
    margins.push(Math.log(first) - Math.log(Math.max(second, 1e-37)));
    input = [token];
  }
  runs.push({ tokens, margins });
}
await context.dispose();
await model.dispose();
await llama.dispose();
console.log(JSON.stringify({ runs }));
