/** Logits of a gemma2 model compared with llama.cpp's, over contexts longer than its window. */

import { equal, ok } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { loadModel } from "../../trainer/model/load_model.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { decodeGreedily, llamaCppMissing } from "../llama_cpp.ts";
import { GEMMA2_WINDOW, writeGemma2 } from "./gemma2_model.ts";
import { promptLogits } from "./prompt_logits.ts";

const NEW_TOKENS = 60;
/** llama.cpp looks GELU up in an f16 table: its error of 2^-11 in each gate changes a lead by about 2e-4. */
const TOLERANCE = 1e-3;

const missing = llamaCppMissing();
const title = "gemma2: the lead of the first logit over the second is llama.cpp's";

/** The token with the largest logit, and its lead over the second. */
function leadOf(logits: Float32Array): { token: number; lead: number } {
  const token = logits.indexOf(logits.reduce((a, b) => Math.max(a, b)));
  const second = logits.reduce((top, logit, id) => id === token ? top : Math.max(top, logit), -Infinity);
  return { token, lead: logits[token]! - second };
}

if (missing) Deno.test({ name: `${title} (skipped: ${missing})`, ignore: true, fn: () => {} });
else {
  gpuTest(title, (gpu) =>
    withFolder(async (folder) => {
      const path = `${folder}/model.gguf`, texts = await readFixtureJson("models/stories260k-goldens.json");
      await writeGemma2(await fixturePath("models/stories260k.gguf"), path);
      const prompts = (texts["stories260k.gguf"] as { prompt_ids: number[] }[]).map((text) =>
        text.prompt_ids
      );
      const runs = await decodeGreedily({
        ...{ model_path: path, adapter_path: null, prompts, max_new_tokens: NEW_TOKENS },
      });
      using file = await openGguf(path);
      const { model, allocator } = await loadModel(gpu, file, { compute: "f32", max_context: 256 });
      try {
        const sequences = runs.map(({ tokens }, i) => [...prompts[i]!, ...tokens]);
        const logits = await promptLogits({ model, allocator }, null, sequences);
        let worst = 0;
        for (const [i, { tokens, margins }] of runs.entries()) {
          ok(sequences[i]!.length > 4 * GEMMA2_WINDOW);
          for (const [t, margin] of margins.entries()) {
            const { token, lead } = leadOf(logits[i]![prompts[i]!.length - 1 + t]!);
            const error = token === tokens[t] ? Math.abs(lead - margin) : lead + margin;
            ok(
              error <= TOLERANCE,
              `prompt ${i}, token ${t}: ${token} leads by ${lead}, ${tokens[t]} by ${margin}`,
            );
            worst = Math.max(worst, error);
          }
        }
        equal(runs.length, prompts.length);
        console.log(`gemma2: leads differ from llama.cpp's by ${worst.toExponential(1)} at most`);
      } finally {
        model.recorder.destroy();
        allocator.destroy();
      }
    }));
}
