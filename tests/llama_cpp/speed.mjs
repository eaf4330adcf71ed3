/**
 * Tokens per second of llama.cpp on the processor, as a program: one JSON request on standard input, one JSON answer on
 * standard output (both typed in ../llama_cpp.ts).
 */

import { getLlama, LlamaLogLevel } from "node-llama-cpp";

const { model_path, adapter_path, threads, repetitions, prefills, decodes } = await new Response(
  Deno.stdin.readable,
).json();
const llama = await getLlama({
  gpu: false,
  maxThreads: threads,
  build: "never",
  skipDownload: true,
  logLevel: LlamaLogLevel.error,
});
const model = await llama.loadModel({ modelPath: model_path });

/** Tokens that all are in the vocabulary and no special ones of it. */
const given = (count, start) => Array.from({ length: count }, (_, i) => 300 + (start + 7 * i) % 400);

/** Opens a context for as many sequences of so many tokens. */
const contextOf = (sequences, length) =>
  model.createContext({
    threads,
    sequences,
    contextSize: length,
    batchSize: Math.max(512, sequences * length),
    lora: { adapters: [{ filePath: adapter_path, scale: 1 }] },
  });

/** The most tokens per second that `run` reached; it returns their number. The first run is left out. */
async function best(run) {
  let rate = 0;
  for (let i = 0; i <= repetitions; i++) {
    const { tokens, seconds } = await run();
    if (i > 0) rate = Math.max(rate, tokens / seconds);
  }
  return rate;
}

async function timed(count, run) {
  const start = performance.now();
  await run();
  return { tokens: count, seconds: (performance.now() - start) / 1000 };
}

async function prefill({ sequences, tokens }) {
  const context = await contextOf(sequences, tokens + 8);
  const all = Array.from({ length: sequences }, () => context.getSequence());
  const rate = await best(async () => {
    for (const sequence of all) await sequence.clearHistory();
    return await timed(
      sequences * tokens,
      () =>
        Promise.all(all.map((sequence, i) => sequence.evaluateWithoutGeneratingNewTokens(given(tokens, i)))),
    );
  });
  await context.dispose();
  return rate;
}

async function decode({ sequences, prompt, tokens }) {
  const context = await contextOf(sequences, prompt + tokens + 8);
  const all = Array.from({ length: sequences }, () => context.getSequence());
  // The complete distribution, as the other programs draw from it.
  const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, yieldEogToken: true };
  const draw = async (sequence, i) => {
    let count = 0;
    for await (const _ of sequence.evaluate(given(1, i), sampling)) if (++count === tokens) break;
  };
  const rate = await best(async () => {
    for (const sequence of all) await sequence.clearHistory();
    await Promise.all(
      all.map((sequence, i) => sequence.evaluateWithoutGeneratingNewTokens(given(prompt, i))),
    );
    return await timed(sequences * tokens, () => Promise.all(all.map(draw)));
  });
  await context.dispose();
  return rate;
}

const answer = { prefills: [], decodes: [] };
for (const request of prefills) answer.prefills.push(await prefill(request));
for (const request of decodes) answer.decodes.push(await decode(request));
await model.dispose();
await llama.dispose();
console.log(JSON.stringify(answer));
