import assert from "node:assert/strict";
import { recordFlushes } from "../../tests/flushes.ts";
import { withFolder } from "../../tests/folder.ts";
import { copyParent, parentCheckpoint } from "./parent_checkpoint.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };
const FILES = { "adapter.gguf": "adapter", "state.json": "{}" };
const CHECKPOINT = "update_000004";

for (const way of ["linked", "copied"] as const) {
  Deno.test(
    `a parent's checkpoint that is ${way} into a fork survives a power cut`,
    strict,
    () =>
      withFolder(async (root) => {
        const directory = `${root}/${CHECKPOINT}`, run_folder = `${root}/fork`, { link } = Deno;
        await Deno.mkdir(directory);
        await Deno.mkdir(run_folder);
        for (const [name, text] of Object.entries(FILES)) {
          await Deno.writeTextFile(`${directory}/${name}`, text);
        }
        if (way === "copied") Deno.link = () => Promise.reject(new Error("another file system"));
        const flushes = await recordFlushes(() =>
          copyParent({ run: "run_1", checkpoint: CHECKPOINT, directory }, run_folder)
        ).finally(() => Deno.link = link);
        const copy = `${run_folder}/parent/${CHECKPOINT}`;
        assert.deepEqual(flushes.get(run_folder), ["parent"]);
        assert.deepEqual(flushes.get(`${run_folder}/parent`), [CHECKPOINT]);
        assert.deepEqual(flushes.get(copy), Object.keys(FILES));
        for (const [name, text] of Object.entries(FILES)) {
          assert.equal(await Deno.readTextFile(`${copy}/${name}`), text);
          // A checkpoint's own files are flushed when it is written.
          assert.equal(flushes.get(`${copy}/${name}`), way === "copied" ? text : undefined);
        }
        assert.equal(await parentCheckpoint(run_folder), copy);
      }),
  );
}
