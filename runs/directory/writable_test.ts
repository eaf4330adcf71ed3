import assert from "node:assert/strict";
import { parseRunConfig } from "../../config/check/load.ts";
import { ServiceError } from "../../core/errors.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { withFolder } from "../../tests/folder.ts";
import { startRun } from "../process/process.ts";
import { testConfig } from "../config_testing.ts";
import { checkWritable } from "./writable.ts";

Deno.test("all paths that cannot be written are named before a run starts", () =>
  withFolder(async (root) => {
    await Deno.writeTextFile(`${root}/file`, "");
    await Deno.mkdir(`${root}/folder`);
    const config = testConfig(`${root}/new`, "[checkpoint]\n[observe]");
    await checkWritable(config);
    assert.deepEqual((await Array.fromAsync(Deno.readDir(root))).length, 2, "nothing is made");
    config.run.directory = `${root}/file`;
    config.output.path = `${root}/folder`;
    config.output.peft_dir = `${root}/file/peft`;
    config.checkpoint!.directory = `${root}/file`;
    config.observe!.directory = `${root}/file/deep/er`;
    config.metrics.csv = `${root}/folder/`;
    await assert.rejects(checkWritable(config), (error: ServiceError) => {
      assert.equal(error.code, "config_invalid");
      const keys = (error.details.problems as { key: string }[]).map(({ key }) => key);
      assert.deepEqual(keys, [
        "run.directory",
        "output.path",
        "output.peft_dir",
        "checkpoint.directory",
        "observe.directory",
        "metrics.csv",
      ]);
      assert.match(error.message, /\nrun\.directory: Cannot write .*file: it is not a folder\n/);
      return true;
    });
  }));

Deno.test("a run is refused if a path that it needs at its end cannot be written", () =>
  withFolder(async (root) => {
    await Deno.writeTextFile(`${root}/file`, "");
    const text = `
run = { algorithm = "sft", directory = "run" }
model.path = ${JSON.stringify(await fixturePath("models/tiny-agent-q8_0.gguf"))}
sft.data = ${JSON.stringify(await fixturePath("models/tiny-agent/sft-traces.jsonl"))}
output.peft_dir = "file/peft"`;
    const loaded = parseRunConfig(text, { path: `${root}/x.toml` });
    const start = startRun({ loaded, entry_url: "data:,", mode: "new", checkpoint: null, force: false });
    await assert.rejects(start, { code: "config_invalid", message: /output\.peft_dir/ });
    await assert.rejects(Deno.stat(`${root}/run`), "nothing was begun");
  }));

Deno.test("a run whose output is an input, or lies in the fork's parent, is refused and makes nothing", () =>
  withFolder(async (root) => {
    await Deno.writeTextFile(`${root}/start.gguf`, "");
    await Deno.mkdir(`${root}/parent`);
    const start = async (output: string, more: string) => {
      const text = `
run = { algorithm = "sft", directory = "run" }
model.path = ${JSON.stringify(await fixturePath("models/tiny-agent-q8_0.gguf"))}
sft.data = ${JSON.stringify(await fixturePath("models/tiny-agent/sft-traces.jsonl"))}
output.path = ${JSON.stringify(output)}
${more}`;
      const loaded = parseRunConfig(text, { path: `${root}/x.toml` });
      const mode = more === "" ? "fork" as const : "new" as const;
      const checkpoint = mode === "fork" ? `${root}/parent` : null;
      return startRun({ loaded, entry_url: "data:,", mode, checkpoint, force: true });
    };
    await assert.rejects(start("start.gguf", 'lora.init_adapter = "start.gguf"'), {
      code: "config_invalid",
      message:
        /x\.toml:5: Cannot use .*output\.path and lora\.init_adapter are the same file; name another output\.path$/,
    });
    await assert.rejects(start("parent/adapter.gguf", ""), /output\.path lies in --fork/);
    assert.equal((await Array.fromAsync(Deno.readDir(root))).length, 2, "nothing is made");
  }));
