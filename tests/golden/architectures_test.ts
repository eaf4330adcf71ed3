/** Real models of other architectures against float64 numpy on their dequantised weights. */

import { deepEqual, equal } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { generate } from "../../trainer/engine/engine_testing.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { loadModel } from "../../trainer/model/load_model.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";
import { expectNear, openEngine, TOLERANCE } from "./golden.ts";
import { promptLogits } from "./prompt_logits.ts";

interface GoldenPrompt {
  text: string;
  prompt_ids: number[];
  /** For each token after the first. */
  logprobs_of_next: number[];
  /** After each token. */
  logits_first8: number[][];
  last_top5: [id: number, logit: number][];
  /** The prompt and the greedily decoded tokens. */
  greedy_ids: number[];
}

/** The context length of the models' training. */
const CONTEXT = 512;

const FILES = [
  ["stories260k.gguf", "stories260k-goldens.json"],
  ["tinystories-656k-llama-f16.gguf", "tinystories-656k-goldens.json"],
  ["tinystories-656k-llama-q8_0.gguf", "tinystories-656k-goldens.json"],
  ["tinystories-656k-llama-q4_0.gguf", "tinystories-656k-goldens.json"],
  ["tinystories-656k-qwen2-f16.gguf", "tinystories-656k-goldens.json"],
  ["tinystories-656k-qwen2-q8_0.gguf", "tinystories-656k-goldens.json"],
] as const;

const logSumExp = (logits: Float32Array) => {
  const max = logits.reduce((a, b) => Math.max(a, b));
  return max + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - max), 0));
};

for (const [file, goldens] of FILES) {
  gpuTest(`${file}: log-probabilities, logits and greedy tokens`, async (gpu) => {
    const golden = (await readFixtureJson(`models/${goldens}`))[file] as GoldenPrompt[];
    const path = await fixturePath(`models/${file}`);
    using model_file = await openGguf(path);
    const prompts = golden.map(({ prompt_ids }) => prompt_ids);
    const { model, allocator } = await loadModel(gpu, model_file, { compute: "f32", max_context: CONTEXT });
    try {
      const logits = await promptLogits({ model, allocator }, null, prompts);
      const near = (value: number, expected: number, name: string) =>
        expectNear(value, { expected, tolerance: TOLERANCE.f32.logit, name });
      golden.forEach(({ text, prompt_ids, logprobs_of_next, logits_first8, last_top5 }, i) => {
        const rows = logits[i]!;
        equal(rows.length, logits_first8.length);
        logits_first8.forEach((expected, t) =>
          expected.forEach((logit, id) => near(rows[t]![id]!, logit, `${text}, ${t}: logit ${id}`))
        );
        logprobs_of_next.forEach((logprob, t) =>
          near(rows[t]![prompt_ids[t + 1]!]! - logSumExp(rows[t]!), logprob, `${text}: log p ${t + 1}`)
        );
        last_top5.forEach(([id, logit]) => near(rows.at(-1)![id]!, logit, `${text}: last logit ${id}`));
      });
    } finally {
      model.recorder.destroy();
      allocator.destroy();
    }
    const engine = await openEngine(path, { max_context: CONTEXT }), { client } = engine;
    try {
      for (const { text, prompt_ids, greedy_ids } of golden) {
        const sequence = client.newSequence();
        await client.call("sequence_open", { sequence, adapter: null, parent: null, tokens: prompt_ids });
        const { tokens } = await generate(engine, {
          sequence,
          max_tokens: greedy_ids.length - prompt_ids.length,
        });
        deepEqual([...prompt_ids, ...tokens], greedy_ids, text);
        await client.call("sequence_close", { sequence });
      }
    } finally {
      await engine.close();
    }
  });
}
