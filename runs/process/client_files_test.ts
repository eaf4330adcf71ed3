/** A process that a server starts takes no file of a client whose path has become a link. */

import assert from "node:assert/strict";
import { parseRunConfig } from "../../config/check/load.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { testPipe } from "../run_fake.ts";
import { startCalibration } from "./calibrate.ts";
import { startProbe } from "./probe.ts";
import { startRun } from "./process.ts";

/** The configuration of a run whose model is a link, and the message of its refusal. */
async function linked(root: string) {
  const path = `${root}/model.gguf`,
    real = await Deno.realPath(await fixturePath("models/tiny-agent-f16.gguf"));
  await Deno.symlink(real, path);
  await Deno.writeTextFile(`${root}/rows.jsonl`, '{"text": "a b c"}');
  const text = `
run.algorithm = "sft"
run.directory = "${root}/run"
model.path = "${path}"
sft.data = "${root}/rows.jsonl"`;
  const loaded = parseRunConfig(text, { path: `${root}/run.toml` });
  return { loaded, refusal: `Cannot read ${path}: it is a link to ${real}, or lies in a folder that is one` };
}

const GENERATE = {
  command: "generate",
  messages: [{ role: "user", content: "Hi" }],
  ...{ max_new_tokens: 1, temperature: 1, top_p: 1 },
};

const entry_url = import.meta.resolve("../../cli.ts");

Deno.test("a run of a server", () =>
  withFolder(async (root) => {
    const { loaded, refusal } = await linked(root);
    const start = { loaded, entry_url, mode: "new" as const, checkpoint: null, force: false, adopt: "run_X" };
    await assert.rejects(startRun(start), { code: "path_not_found", message: refusal });
  }));

for (
  const [name, start, command] of [
    ["a probe that generates", startProbe, GENERATE],
    ["a probe that evaluates", startProbe, { command: "evaluate", limit: 1 }],
    ["a calibration", startCalibration, { command: "calibrate" }],
  ] as const
) {
  Deno.test(name, () =>
    withFolder(async (root) => {
      const { loaded, refusal } = await linked(root), pipe = testPipe();
      pipe.send({ id: 1, ...command });
      const served = start(loaded, { control: pipe.port, entry_url });
      while (!pipe.sent.some((message) => "error" in message)) await new Promise((go) => setTimeout(go));
      pipe.end();
      await served;
      const { error } = pipe.sent.find((message) => "error" in message) as { error: object };
      assert.deepEqual(error, {
        code: "path_not_found",
        message: refusal,
        details: { path: `${root}/model.gguf` },
      });
    }));
}
