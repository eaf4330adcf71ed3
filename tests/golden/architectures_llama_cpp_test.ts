/** Other architectures compared with llama.cpp, with biases and divided frequencies that the goldens' files lack. */

import { equal, notEqual, ok } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { decodeGreedily, llamaCppMissing } from "../llama_cpp.ts";
import { randomBiases, writeChanged } from "./changed_model.ts";
import { writeGemma2 } from "./gemma2_model.ts";
import { followRun, trainAdapter } from "./follow_llama_cpp.ts";
import { openEngine, sample } from "./golden.ts";

const NEW_TOKENS = 60, CONTEXT = 256;

/** Divisors like those of Llama 3.1: none for fast pairs, larger ones for slow pairs. */
const FACTORS = Float32Array.from([1, 1, 1, 1.5, 3, 6, 8, 8]);

interface Case {
  name: string;
  /** The fixture that the model is made from, or whose vocabulary it has. */
  from: string;
  goldens: string;
  /** Writes the model. */
  write: (from: string, to: string) => Promise<void>;
  /** Whether the goldens apply: the model is the unchanged fixture. */
  is_golden: boolean;
}

const changed =
  (changes: (path: string) => Promise<Map<string, Float32Array>>): Case["write"] => async (from, to) =>
    await writeChanged(from, to, await changes(from));

const CASES: Case[] = [
  {
    name: "llama in f32",
    from: "stories260k.gguf",
    goldens: "stories260k-goldens.json",
    write: Deno.copyFile,
    is_golden: true,
  },
  {
    name: "llama with divided frequencies",
    from: "tinystories-656k-llama-f16.gguf",
    goldens: "tinystories-656k-goldens.json",
    write: changed(() => Promise.resolve(new Map([["rope_freqs.weight", FACTORS]]))),
    is_golden: false,
  },
  {
    name: "qwen2 with biases",
    from: "tinystories-656k-qwen2-f16.gguf",
    goldens: "tinystories-656k-goldens.json",
    write: changed((path) => randomBiases(path, 1)),
    is_golden: false,
  },
  {
    name: "gemma2 with windows, soft caps and norms after its blocks",
    from: "stories260k.gguf",
    goldens: "stories260k-goldens.json",
    write: writeGemma2,
    is_golden: false,
  },
];

const missing = llamaCppMissing();

for (const { name, from, goldens, write, is_golden } of CASES) {
  const title = `llama.cpp decodes as the engine does, with and without an adapter: ${name}`;
  if (missing) {
    Deno.test({ name: `${title} (skipped: ${missing})`, ignore: true, fn: () => {} });
    continue;
  }
  gpuTest(title, () =>
    withFolder(async (folder) => {
      const path = await fixturePath(`models/${from}`), model_path = `${folder}/model.gguf`;
      const adapter_path = `${folder}/adapter.gguf`;
      await write(path, model_path);
      const texts = (await readFixtureJson(`models/${goldens}`))[from] as {
        prompt_ids: number[];
        greedy_ids: number[];
      }[];
      const prompts = texts.map(({ prompt_ids }) => prompt_ids);
      const engine = await openEngine(model_path, { max_context: CONTEXT });
      try {
        const samples = texts.map(({ greedy_ids }, i) => sample(greedy_ids.toReversed(), i));
        await trainAdapter(engine, { samples, path: adapter_path });
        const runs = [];
        for (const adapter of [null, "trained"]) {
          const request = {
            model_path,
            adapter_path: adapter && adapter_path,
            prompts,
            max_new_tokens: NEW_TOKENS,
          };
          runs.push(await decodeGreedily(request));
          ok(runs.at(-1)!.every(({ tokens }) => tokens.length === NEW_TOKENS));
          for (const [i, run] of runs.at(-1)!.entries()) {
            await followRun(engine, { adapter, prompt: prompts[i]!, run });
          }
        }
        const [base, trained] = runs.map((all) => all.map(({ tokens }) => tokens.join()).join(";"));
        notEqual(trained, base, "the adapter changes what is decoded");
        if (is_golden) return;
        // The change has an effect; otherwise this would repeat the comparison with the goldens.
        const plain = texts.map(({ prompt_ids, greedy_ids }) => greedy_ids.slice(prompt_ids.length).join());
        const found = runs[0]!.map(({ tokens }, i) =>
          tokens.slice(0, texts[i]!.greedy_ids.length - texts[i]!.prompt_ids.length).join()
        );
        equal(found.some((tokens, i) => tokens !== plain[i]), true);
      } finally {
        await engine.close();
      }
    }));
}
