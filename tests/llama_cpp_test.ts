import assert from "node:assert/strict";
import { fixturePath, readFixtureJson } from "./fixture.ts";
import { decodeGreedily, llamaCppMissing } from "./llama_cpp.ts";

/** llama.cpp rounds activations to f16 for this file, so a smaller lead may change the choice. */
const NEAR_TIE = 3e-2;

const missing = llamaCppMissing();
const suffix = missing ? ` (skipped: ${missing})` : "";

interface Golden {
  prompts: {
    ids: number[];
    f16: { greedy: { ids: number[]; margins: number[] } };
  }[];
}

Deno.test({
  name: `llama.cpp continues the golden prompts as PyTorch does${suffix}`,
  ignore: missing !== null,
  sanitizeOps: true,
  sanitizeResources: true,
  async fn() {
    const golden = (await readFixtureJson("models/tiny-agent/golden.json")) as Golden;
    const runs = await decodeGreedily({
      model_path: await fixturePath("models/tiny-agent-f16.gguf"),
      adapter_path: null,
      prompts: golden.prompts.map((prompt) => prompt.ids),
      max_new_tokens: 48,
    });
    let compared = 0;
    for (const [index, { f16 }] of golden.prompts.entries()) {
      const run = runs[index]!;
      assert.equal(run.tokens.length, 48);
      for (const [at, token] of f16.greedy.ids.entries()) {
        if (f16.greedy.margins[at]! <= NEAR_TIE) break;
        assert.equal(run.tokens[at], token, `prompt ${index}, token ${at}`);
        compared++;
      }
    }
    assert.ok(compared > 200, `only ${compared} tokens came before a near tie`);
  },
});

Deno.test({
  name: `llama.cpp refuses a file that is not a model${suffix}`,
  ignore: missing !== null,
  async fn() {
    const request = {
      model_path: await fixturePath("manifest.json"),
      adapter_path: null,
      prompts: [[1]],
      max_new_tokens: 1,
    };
    await assert.rejects(
      decodeGreedily(request),
      /Cannot decode with llama\.cpp/,
    );
  },
});
