/**
 * Tokens by llama.cpp, as a program: one JSON request on standard input, one JSON answer on standard output (both typed
 * in ../llama_cpp.ts).
 */

import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const { model_path, texts, special } = await new Response(Deno.stdin.readable).json();
const llama = await getLlama({
  gpu: false,
  maxThreads: 1,
  build: "never",
  skipDownload: true,
  logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath: model_path, vocabOnly: true });
const ids = texts.map((text) => model.tokenize(text, special));
const decoded = ids.map((tokens) => model.detokenize(tokens, true));
await model.dispose();
await llama.dispose();
console.log(JSON.stringify({ ids, decoded }));
